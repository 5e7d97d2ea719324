package deploy_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

const root = ".."

// run executes a program and gives what it wrote; a failure ends the test.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestImage builds the binary as the Dockerfile does, from no more than
// .dockerignore lets through, and holds the files of this folder against it.
func TestImage(t *testing.T) {
	testkit.SkipShort(t)
	testkit.SkipUnderRace(t) // the builder is another process
	binary := buildImage(t)
	t.Run("static", func(t *testing.T) { staticBinary(t, binary) })
	t.Run("version", func(t *testing.T) {
		if out := run(t, "", nil, binary, "--version"); !strings.Contains(out, "v9.8.7") || !strings.Contains(out, "0123abcd") {
			t.Errorf("the build arguments are not in %q", out)
		}
	})
	t.Run("image and chart commands", func(t *testing.T) { imageCommands(t, binary) })
	t.Run("licences", func(t *testing.T) { licences(t, binary) })
	t.Run("compose commands", func(t *testing.T) { composeCommands(t, binary) })
	t.Run("compose configuration", func(t *testing.T) { run(t, "", nil, binary, "check", "-c", "compose/gateway.yaml") })
	t.Run("unit command", func(t *testing.T) { unitCommand(t, binary) })
}

// imageCommands asks the binary about the command lines that follow the image's entry point: its
// own and those of the chart.
func imageCommands(t *testing.T, binary string) {
	if !strings.Contains(testkit.Read(t, "Dockerfile"), "\nENTRYPOINT [\"/inquiry-gateway\"]\n") {
		t.Error("the image does not begin with the program")
	}
	for _, file := range []string{"Dockerfile", "helm/inquiry-gateway/templates/deployment.yaml", "helm/inquiry-gateway/templates/check.yaml", "helm/inquiry-gateway/templates/tests/ready.yaml"} {
		line := regexp.MustCompile(`\n(?:CMD|\s+args:) \[(.*)\]\n`).FindStringSubmatch(testkit.Read(t, file))
		if line == nil {
			t.Fatalf("%s has no command", file)
		}
		knows(t, binary, strings.FieldsFunc(line[1], func(r rune) bool { return strings.ContainsRune(`", `, r) }))
	}
}

// The image that the documents say to build is the one that the chart of a checkout runs.
func TestTheDocumentedImageIsTheCharts(t *testing.T) {
	values, chart := testkit.Read(t, "helm/inquiry-gateway/values.yaml"), testkit.Read(t, "helm/inquiry-gateway/Chart.yaml")
	repository := regexp.MustCompile(`\n  repository: (\S+)\n`).FindStringSubmatch(values)[1]
	tag := regexp.MustCompile(`\nappVersion: (\S+)\n`).FindStringSubmatch(chart)[1]
	build := "docker build -f deploy/Dockerfile -t " + repository + ":" + tag + " ."
	for _, file := range []string{"../README.md", "../docs/guide.md", "Dockerfile"} {
		if !strings.Contains(testkit.Read(t, file), build) {
			t.Errorf("%s does not say %s", file, build)
		}
	}
}

// buildImage runs the Dockerfile's build instruction in a copy of the build
// context.
func buildImage(t *testing.T) string {
	t.Helper()
	tree := buildContext(t)
	instruction := ""
	for _, i := range instructions(t) {
		if strings.HasPrefix(i, "RUN ") && strings.Contains(i, "go build") {
			instruction = cacheMount.ReplaceAllString(strings.TrimPrefix(i, "RUN "), "")
		}
	}
	binary := filepath.Join(t.TempDir(), "inquiry-gateway")
	script := strings.Replace(instruction, "-o /inquiry-gateway", "-o "+binary, 1)
	if script == instruction {
		t.Fatalf("no build of /inquiry-gateway in the Dockerfile: %q", instruction)
	}
	run(t, tree, []string{"VERSION=v9.8.7", "REVISION=0123abcd"}, "sh", "-c", script)
	return binary
}

// cacheMount is for the builder only.
var cacheMount = regexp.MustCompile(`--mount=\S+ +`)

// instructions joins the Dockerfile's continued lines and leaves comments out.
func instructions(t *testing.T) []string {
	var kept []string
	for line := range strings.Lines(testkit.Read(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Split(strings.ReplaceAll(strings.Join(kept, "\n"), "\\\n", " "), "\n")
}

// buildContext copies what .dockerignore lets through, and requires that the Dockerfile copies nothing
// else. It supports the patterns that the file uses: `*`, `!name` and `**/pattern`.
func buildContext(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	archive := filepath.Join(t.TempDir(), "context.tar")
	options, names := []string{"-cf", archive}, []string{}
	for line := range strings.Lines(testkit.Read(t, filepath.Join(root, ".dockerignore"))) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "!"); ok {
			names = append(names, name)
		} else if pattern, ok := strings.CutPrefix(line, "**/"); ok {
			options = append(options, "--exclude="+pattern)
		}
	}
	run(t, root, nil, "tar", append(options, names...)...)
	run(t, tree, nil, "tar", "-xf", archive)
	for _, i := range instructions(t) {
		if words := strings.Fields(i); words[0] == "COPY" && !strings.HasPrefix(words[1], "--from") {
			for _, source := range words[1 : len(words)-1] {
				if _, err := os.Stat(filepath.Join(tree, source)); err != nil {
					t.Errorf("%s: %v", i, err)
				}
			}
		}
	}
	return tree
}

func staticBinary(t *testing.T, binary string) {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic linker, which an empty image does not have")
		}
	}
	// An import of a package of templates adds half of that: see console/pages.go.
	const most = 30 << 20
	if info, err := os.Stat(binary); err != nil || info.Size() > most {
		t.Errorf("the binary has %d bytes, more than %d (%v)", info.Size(), most, err)
	}
}

// licences asks for the text of every module in the binary, as image and packages bring them.
func licences(t *testing.T, binary string) {
	texts := run(t, root, nil, ".ci/licences")
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !strings.Contains(texts, "\n==== "+m.Path+" "+m.Version+": ") {
			t.Errorf("no licence text of %s", m.Path)
		}
	}
	for _, file := range []string{"Dockerfile", "packages/nfpm.yaml"} {
		if !strings.Contains(testkit.Read(t, file), "/licences") {
			t.Errorf("%s leaves the licence texts out", file)
		}
	}
}
