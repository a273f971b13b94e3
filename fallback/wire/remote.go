package wire

import "net"

// RemoteAddr returns the address that the client is connected to: the one that
// the name given to Dial was resolved to.
func (c *Client) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }
