// A peer of ./dev bench --peers: three Go libraries, one connection pool each.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const lease = 30 * time.Second

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

// What opens the library, and then makes the section of a name.
var libraries = map[string]func(address string) func(name string) func(){
	"redsync": func(address string) func(string) func() {
		pool := goredis.NewPool(redis.NewClient(&redis.Options{Addr: address}))
		locks := redsync.New(pool)
		return func(name string) func() {
			lock := locks.NewMutex(name, redsync.WithExpiry(lease),
				redsync.WithTries(1<<30))
			return func() {
				must(lock.Lock())
				_, err := lock.Unlock()
				must(err)
			}
		}
	},
	"redislock": func(address string) func(string) func() {
		locks := redislock.New(redis.NewClient(&redis.Options{Addr: address}))
		wait := &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
		return func(name string) func() {
			return func() {
				lock, err := locks.Obtain(ctx, name, lease, wait)
				must(err)
				must(lock.Release(ctx))
			}
		}
	},
	"rueidislock": func(address string) func(string) func() {
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{address}},
			KeyMajority:  1, KeyValidity: lease, NoLoopTracking: true})
		must(err)
		return func(name string) func() {
			return func() {
				_, cancel, err := locks.WithContext(ctx, name)
				must(err)
				cancel()
			}
		}
	},
}

func main() {
	open := libraries[os.Args[1]]
	tasks, err := strconv.Atoi(os.Args[3])
	must(err)
	seconds, err := strconv.ParseFloat(os.Args[5], 64)
	must(err)
	section := open("127.0.0.1:" + os.Args[2])
	var stop atomic.Bool
	var all sync.WaitGroup
	start := make(chan struct{})
	done := make([]int, tasks)
	for i := range done {
		all.Add(1)
		one := section(strings.ReplaceAll(os.Args[4], "%d", strconv.Itoa(i)))
		one()
		go func() {
			defer all.Done()
			<-start
			for !stop.Load() {
				one()
				done[i]++
			}
		}()
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	close(start)
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	stop.Store(true)
	all.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	fmt.Println(sum)
}
