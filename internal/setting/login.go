package setting

// User is a name with its password, for a server that wants both.
type User struct {
	// Username is the name of the user.
	Username string `yaml:"username"`
	// UsernameFile is a file with the name of the user, for example an API key; instead of username.
	UsernameFile File `yaml:"username_file"`
	// PasswordFile is the file with the password. Default: an empty password.
	PasswordFile File `yaml:"password_file"`
}

// Client is the gateway itself at an authorization server.
type Client struct {
	// ClientID is the id of the gateway at the authorization server.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile is the file with the secret of client_id.
	ClientSecretFile File `yaml:"client_secret_file"`
}
