// The Go peer: the same three endpoints as the gateway on net/http and pgx, with the same database, checks, headers and
// bodies. As in the gateway, one prepared statement authorizes and reads.
//
// The first argument is the address of the database as JSON. The peer prints {"port":N} when it listens, and ends when
// its standard input ends, which is when its parent ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v4/pgxpool"
)

type address struct {
	SocketDirectory string
	Port            int
	Username        string
	Database        string
}

func connect(a address) (*pgxpool.Pool, error) {
	return pgxpool.Connect(context.Background(), fmt.Sprintf(
		"host=%s port=%d user=%s database=%s pool_max_conns=10", a.SocketDirectory, a.Port, a.Username, a.Database,
	))
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: peer ADDRESS")
	}
	var database address
	if err := json.Unmarshal([]byte(os.Args[1]), &database); err != nil {
		log.Fatal(err)
	}
	pool, err := connect(database)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{
		Handler:           (&api{store: store{pool}}).routes(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	fmt.Printf("{\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}
