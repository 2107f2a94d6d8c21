// A stand-in for the kubelet's streaming server: commands run on this machine, ports are those of
// this machine, and logs are a fixed text. It is built in Kubernetes' source tree, with its own
// streaming library:
//
//	echo '{"Replace": {"SRC/cmd/kubelet-standin/main.go": "THIS FILE"}}' > overlay.json
//	cd SRC && go build -overlay overlay.json -o kubelet-standin ./cmd/kubelet-standin
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

type host struct{}

func (host) ExecInContainer(ctx context.Context, name, uid, container string, cmd []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	command := exec.CommandContext(ctx, cmd[0], cmd[1:]...)
	command.Stdin, command.Stdout, command.Stderr = in, out, errs
	if dir := os.Getenv("STANDIN_ROOT"); dir != "" {
		command.Dir = dir
	}
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

func (host) AttachContainer(ctx context.Context, name, uid, container string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	_, err := io.Copy(out, in)
	return err
}

func (host) PortForward(ctx context.Context, name, uid string, port int32, stream io.ReadWriteCloser) error {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan struct{}, 2)
	go func() { io.Copy(conn, stream); conn.(*net.TCPConn).CloseWrite(); done <- struct{}{} }()
	go func() { io.Copy(stream, conn); done <- struct{}{} }()
	<-done
	<-done
	return nil
}

func handle(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case len(parts) == 4 && parts[0] == "containerLogs":
		fmt.Fprintf(w, "log of %s/%s\n", parts[2], parts[3])
		if query.Get("follow") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	case len(parts) == 4 && (parts[0] == "exec" || parts[0] == "attach"):
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if parts[0] == "exec" {
			remotecommand.ServeExec(w, r, host{}, parts[2], "", parts[3], query["command"], options, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
		} else {
			remotecommand.ServeAttach(w, r, host{}, parts[2], "", parts[3], options, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
		}
	case len(parts) == 3 && parts[0] == "portForward":
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, host{}, parts[2], "", options, time.Hour, time.Minute, portforward.SupportedProtocols)
	default:
		http.NotFound(w, r)
	}
}

// kubelet-standin ADDRESS CERTIFICATE KEY
func main() {
	server := &http.Server{
		Addr:         os.Args[1],
		Handler:      http.HandlerFunc(handle),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	panic(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
}
