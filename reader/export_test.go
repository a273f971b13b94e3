package reader

// For the tests outside of the package, which run nodes of their own.
var (
	Fill    = fill
	WrongAt = wrongAt
)
