CREATE ROLE anonymous;
CREATE ROLE reader;
CREATE ROLE writer;
CREATE SCHEMA app;
CREATE SCHEMA private;
GRANT USAGE ON SCHEMA app TO anonymous, reader, writer;
CREATE TABLE app.customers (no text PRIMARY KEY, name text NOT NULL);
CREATE TABLE app.inquiries (
  id uuid PRIMARY KEY, customer_no text NOT NULL REFERENCES app.customers, vendor text NOT NULL, subject text NOT NULL, body text NOT NULL,
  state text NOT NULL, topic text, created_at timestamptz NOT NULL
);
CREATE INDEX ON app.inquiries (customer_no);
CREATE INDEX ON app.inquiries (vendor);
CREATE INDEX ON app.inquiries (topic);
CREATE INDEX ON app.inquiries (created_at);
CREATE TABLE app.replies (
  id uuid PRIMARY KEY, inquiry_id uuid NOT NULL REFERENCES app.inquiries, body text NOT NULL, staff boolean NOT NULL, internal boolean NOT NULL,
  written_at timestamptz NOT NULL
);
CREATE INDEX ON app.replies (inquiry_id);
CREATE INDEX ON app.replies (written_at);
GRANT SELECT ON ALL TABLES IN SCHEMA app TO reader, writer;
GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA app TO writer;
CREATE TABLE private.users (name text PRIMARY KEY, password text NOT NULL, role text NOT NULL);
INSERT INTO private.users VALUES ('gateway', 'a word', 'reader'), ('admin', 'a word for admin', 'writer');
CREATE TYPE app.jwt AS (role text, exp bigint, name text);
CREATE FUNCTION app.authenticate(name text, password text) RETURNS app.jwt LANGUAGE sql STRICT VOLATILE SECURITY DEFINER AS $$
  SELECT role, extract(epoch FROM now())::bigint + CASE role WHEN 'reader' THEN 30 ELSE 3600 END, u.name
  FROM private.users u WHERE u.name = authenticate.name AND u.password = authenticate.password
$$;
