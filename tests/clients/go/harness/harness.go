// Package harness is what the client programs share: a configuration, and steps that end the program
// with their name when they fail.
package harness

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Namespace is made by the test for the program alone.
var Namespace = os.Getenv("TEST_NAMESPACE")

// Config reads $KUBECONFIG.
func Config() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Must("kubeconfig", err)
	config.QPS, config.Burst = 1000, 1000
	return config
}

// Context ends before the test gives up on the program.
func Context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 60*time.Second)
}

// Must ends the program unless err is nil.
func Must(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
}

// Check ends the program unless the condition holds; seen is shown then.
func Check(step string, condition bool, seen ...any) {
	if !condition {
		fmt.Fprintf(os.Stderr, "%s: not as expected: %+v\n", step, seen)
		os.Exit(1)
	}
}

// Done tells the test that a step was passed.
func Done(step string) { fmt.Println("done:", step) }

// Receive waits for the next value of a channel.
func Receive[T any](ctx context.Context, step string, from <-chan T) T {
	select {
	case value, open := <-from:
		Check(step, open, "channel closed")
		return value
	case <-ctx.Done():
		Must(step, ctx.Err())
		panic("unreachable")
	}
}
