package wire

import (
	"strconv"
	"time"
)

// Op is what a frame asks for. The numbers are frozen.
type Op uint8

const (
	OpHello       Op = 1
	OpReadArena   Op = 2
	OpRDMAConnect Op = 3
	OpPut         Op = 4
	OpPublish     Op = 5
	OpAppend      Op = 6
	OpStat        Op = 7
	OpReadDurable Op = 8
	OpList        Op = 9
	OpNodeStat    Op = 10
	OpPing        Op = 11
	OpLease       Op = 12
	OpFill        Op = 13
	OpName        Op = 15
	OpAwaitArena  Op = 14
)

// Limits on lengths, in bytes, and on counts.
const (
	MaxPayload = 1<<20 + 4<<10 // of a frame
	MaxRead    = 1 << 20       // arena or durable bytes in one reply
	MaxReads   = 256           // reads of one ReadArena
	MaxAppend  = 1 << 20       // data of one Append
	MaxPutData = 4096          // data of one Put; also the greatest from+len
	MaxOpaque  = 1 << 10       // an RDMAConnect payload, either way
	MaxName    = 64            // a client's name, a boot id, a lease's owner
	MaxToken   = 255
	MaxShmPath = 200
	MaxShard   = 139 // 128 of the stream, a slash, 10 digits
	MaxList    = 4096
	// MaxAwaitWords are the words of one AwaitArena: the lengths of a whole page.
	MaxAwaitWords = 128
	MaxMessage    = 512  // of an error reply
	maxUnknown    = 4096 // payload of an unknown request, so that it can be refused in words
	maxErrReply   = errFixed + MaxMessage
)

// MaxAwait is the longest wait of an AwaitArena.
const MaxAwait = time.Minute

// maxRequest is the longest request payload that o allows.
func (o Op) maxRequest() int {
	switch o {
	case OpHello:
		return helloFixed + 1 + MaxName + 1 + MaxToken
	case OpReadArena:
		return readArenaFixed + MaxReads*readArenaEntry
	case OpRDMAConnect:
		return MaxOpaque
	case OpPut:
		return putFixed + MaxPutData
	case OpPublish:
		return publishFixed + 1 + MaxShard
	case OpAppend:
		return appendFixed + 1 + MaxShard + MaxAppend
	case OpStat:
		return 1 + MaxShard
	case OpReadDurable:
		return readDurableFixed + 1 + MaxShard
	case OpList:
		return listFixed + 1 + MaxShard
	case OpLease:
		return leaseFixed + 1 + MaxName + 1 + MaxShard
	case OpFill:
		return fillFixed + 1 + MaxShard
	case OpName:
		return nameFixed + 1 + MaxShard
	case OpAwaitArena:
		return awaitFixed + MaxAwaitWords*awaitEntry + MaxReads*readArenaEntry + extentReadLen
	case OpNodeStat, OpPing:
		return 0
	}
	return maxUnknown
}

// Repeatable reports whether a request of this kind may be sent again when its fate is unknown, whatever it carries. It
// is false for OpAppend: that one may be repeated only with an explicit offset (see the package comment).
func (o Op) Repeatable() bool {
	switch o {
	case OpHello, OpReadArena, OpRDMAConnect, OpPut, OpPublish, OpStat, OpReadDurable, OpList, OpNodeStat, OpPing, OpLease, OpFill, OpName, OpAwaitArena:
		return true
	}
	return false
}

// String is the operation's name as in the package comment, or its number.
func (o Op) String() string {
	switch o {
	case OpHello:
		return "Hello"
	case OpReadArena:
		return "ReadArena"
	case OpRDMAConnect:
		return "RDMAConnect"
	case OpPut:
		return "Put"
	case OpPublish:
		return "Publish"
	case OpAppend:
		return "Append"
	case OpStat:
		return "Stat"
	case OpReadDurable:
		return "ReadDurable"
	case OpList:
		return "List"
	case OpNodeStat:
		return "NodeStat"
	case OpPing:
		return "Ping"
	case OpLease:
		return "Lease"
	case OpFill:
		return "Fill"
	case OpName:
		return "Name"
	case OpAwaitArena:
		return "AwaitArena"
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}
