// Hello writes one record to a topic and reads the topic back, with nothing but gRPC and the stubs that
// `go generate` makes from the .proto files. How to run it: docs/languages.md.
package main

//go:generate buf generate

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	pb "quorate.example/hello/quoratev1"
)

func main() {
	if len(os.Args) != 3 {
		log.Print("usage: hello HOST:PORT TOPIC (any broker, and a topic that exists)")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := hello(ctx, leader{bootstrap: os.Args[1], topic: os.Args[2]}); err != nil {
		log.Fatal(err)
	}
}

func hello(ctx context.Context, at leader) error {
	stored, err := at.write(ctx, &pb.Record{Key: []byte("go"), Value: []byte("hello from Go")})
	if err != nil {
		return err
	}
	fmt.Printf("stored at offset %d\n", stored.GetBaseOffset())

	// Read the partition from its first record to ours.
	for offset := stored.GetLogStartOffset(); offset < stored.GetNextOffset(); {
		read, err := at.read(ctx, offset)
		if err != nil {
			return err
		}
		for _, record := range read.GetRecords() {
			fmt.Printf("%d: %s\n", record.GetOffset(), record.GetValue())
		}
		offset = read.GetNextFetchOffset()
	}
	return nil
}
