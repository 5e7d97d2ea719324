package setting

// User is a name with its password, for a server that wants both.
type User struct {
	// Username is the user's name at the server.
	Username string `yaml:"username"`
	// UsernameFile holds the user's name, such as an API key that is sent as one; instead of username.
	UsernameFile File `yaml:"username_file"`
	// PasswordFile holds the password. Left out, it is empty.
	PasswordFile File `yaml:"password_file"`
}

// Client is the gateway itself at an authorization server.
type Client struct {
	// ClientID is the gateway's own name at the authorization server.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile holds the secret of client_id.
	ClientSecretFile File `yaml:"client_secret_file"`
}
