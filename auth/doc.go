// Package auth says who a peer is and what it may do. It holds what both ends of
// the TCP protocol show each other: certificates, tokens, and the rules that a node
// goes by. It knows nothing of the protocol itself.
//
// # Who
//
// An Identity is one of
//
//	uri:URI     the first URI among the subject's alternative names of a certificate
//	cn:NAME     the common name of a certificate without a URI
//	token:NAME  the name that stands before a token in the node's token file
//	uid:N       the user of a process of the same host, told by its kernel
//	anonymous   whoever reached a node that asks for nothing
//
// The kind is a part of it, so that nobody gets the rights of a certificate by the
// name of a token. A certificate counts when it was signed by the authority that
// the node was told of; where a peer has shown a certificate and a token, both must
// be right, and the certificate names it. A certificate counts until it expires, also
// over a connection that was there before (Proof.Until), and unless it is in the node's
// file of revoked ones: SHA-256 fingerprints, a line each, or revocation lists (RFC 5280)
// of its authorities. A list counts also when its next update is overdue: what it has
// revoked stays so.
//
// # What
//
// Rules give an Identity its Grant; who has none may do nothing. Without rules
// everybody who is known may do everything. A pattern of streams is a stream's name,
// a prefix with '*' behind it, or '*' alone.
//
// # Files
//
// Certificates, keys, tokens and rules are files, which are looked at every few
// seconds and taken when all of them are right together; until then what was there
// before stays in force, and what is wrong is logged once. New connections use
// what is new. A key file that others can read is warned of.
package auth
