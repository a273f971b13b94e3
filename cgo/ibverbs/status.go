package ibverbs

import "fmt"

// Status is the result of a work request: ibv_wc_status, whose numbers are part
// of the library's ABI. Success is the zero value.
type Status uint32

const (
	Success Status = iota
	LocLenErr
	LocQPOpErr
	LocEECOpErr
	LocProtErr
	WRFlushErr
	MWBindErr
	BadRespErr
	LocAccessErr
	RemInvReqErr
	RemAccessErr
	RemOpErr
	RetryExcErr
	RNRRetryExcErr
	LocRDDViolErr
	RemInvRDReqErr
	RemAbortErr
	InvEECNErr
	InvEECStateErr
	FatalErr
	RespTimeoutErr
	GeneralErr
	TMErr
	TMRndvIncomplete
)

var statusNames = [...]string{
	Success:          "SUCCESS",
	LocLenErr:        "LOC_LEN_ERR",
	LocQPOpErr:       "LOC_QP_OP_ERR",
	LocEECOpErr:      "LOC_EEC_OP_ERR",
	LocProtErr:       "LOC_PROT_ERR",
	WRFlushErr:       "WR_FLUSH_ERR",
	MWBindErr:        "MW_BIND_ERR",
	BadRespErr:       "BAD_RESP_ERR",
	LocAccessErr:     "LOC_ACCESS_ERR",
	RemInvReqErr:     "REM_INV_REQ_ERR",
	RemAccessErr:     "REM_ACCESS_ERR",
	RemOpErr:         "REM_OP_ERR",
	RetryExcErr:      "RETRY_EXC_ERR",
	RNRRetryExcErr:   "RNR_RETRY_EXC_ERR",
	LocRDDViolErr:    "LOC_RDD_VIOL_ERR",
	RemInvRDReqErr:   "REM_INV_RD_REQ_ERR",
	RemAbortErr:      "REM_ABORT_ERR",
	InvEECNErr:       "INV_EECN_ERR",
	InvEECStateErr:   "INV_EEC_STATE_ERR",
	FatalErr:         "FATAL_ERR",
	RespTimeoutErr:   "RESP_TIMEOUT_ERR",
	GeneralErr:       "GENERAL_ERR",
	TMErr:            "TM_ERR",
	TMRndvIncomplete: "TM_RNDV_INCOMPLETE",
}

// String returns the name without the prefix IBV_WC_, or the number.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}
