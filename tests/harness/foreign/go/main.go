// etcd's own lock, concurrency.Mutex, by lines on stdin: see ../../foreign.py.
//
//	mutex ENDPOINT NAME [TTL]
//
//	sections FROM TO    sections N: does sections until TO (ms since 1970), and
//	                    counts those that it entered from FROM on
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func fail(err error) {
	fmt.Println("error", err)
	os.Exit(1)
}

func count(mutex *concurrency.Mutex, path string, times int) {
	for i := 0; i < times; i++ {
		if err := mutex.Lock(context.Background()); err != nil {
			fail(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			fail(err)
		}
		time.Sleep(2 * time.Millisecond)
		next := []byte(strconv.Itoa(number+1) + "\n")
		if err := os.WriteFile(path, next, 0o644); err != nil {
			fail(err)
		}
		if err := mutex.Unlock(context.Background()); err != nil {
			fail(err)
		}
	}
	fmt.Println("counted", times)
}

func sections(mutex *concurrency.Mutex, from, to int64) {
	done := 0
	for time.Now().UnixMilli() < to {
		if err := mutex.Lock(context.Background()); err != nil {
			fail(err)
		}
		if at := time.Now().UnixMilli(); from <= at && at < to {
			done++
		}
		if err := mutex.Unlock(context.Background()); err != nil {
			fail(err)
		}
	}
	fmt.Println("sections", done)
}

func main() {
	ttl := 60
	if len(os.Args) > 3 {
		ttl, _ = strconv.Atoi(os.Args[3])
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Args[1]}, DialTimeout: 10 * time.Second})
	if err != nil {
		fail(err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		fail(err)
	}
	mutex := concurrency.NewMutex(session, os.Args[2])
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "lock":
			err = mutex.Lock(context.Background())
			fmt.Println("locked")
		case "try":
			err = mutex.TryLock(context.Background())
			if err == concurrency.ErrLocked {
				err = nil
				fmt.Println("busy")
			} else if err == nil {
				fmt.Println("locked")
			}
		case "unlock":
			err = mutex.Unlock(context.Background())
			fmt.Println("unlocked")
		case "revision":
			fmt.Println(mutex.Header().Revision)
		case "count":
			times, _ := strconv.Atoi(words[2])
			count(mutex, words[1], times)
		case "sections":
			from, _ := strconv.ParseInt(words[1], 10, 64)
			to, _ := strconv.ParseInt(words[2], 10, 64)
			sections(mutex, from, to)
		}
		if err != nil {
			fail(err)
		}
	}
}
