// Hello writes one record to a topic and reads the topic back, with nothing but gRPC and the stubs that
// `go generate` makes from the .proto files. How to run it: docs/languages.md.
package main

//go:generate buf generate

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "quorate.example/hello/quoratev1"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: hello HOST:PORT TOPIC (any broker, and a topic that exists)")
	}
	if err := hello(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func hello(bootstrap, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// Write to partition 0. The answer comes once every in-sync replica has the record.
	record := &pb.Record{Key: []byte("go"), Value: []byte("hello from Go")}
	stored, err := atLeader(ctx, bootstrap, topic,
		func(ctx context.Context, leader pb.BrokerServiceClient) (*pb.ProducePartitionResult, error) {
			answer, err := leader.Produce(ctx, &pb.ProduceRequest{
				Acks:       pb.Acks_ACKS_ALL,
				Partitions: []*pb.ProducePartition{{Topic: topic, Records: []*pb.Record{record}}},
			})
			return only(answer.GetPartitions(), err)
		})
	if err != nil {
		return err
	}
	fmt.Printf("stored at offset %d\n", stored.GetBaseOffset())

	// Read the partition from its first record to ours.
	for offset := stored.GetLogStartOffset(); offset < stored.GetNextOffset(); {
		read, err := atLeader(ctx, bootstrap, topic,
			func(ctx context.Context, leader pb.BrokerServiceClient) (*pb.FetchPartitionResult, error) {
				answer, err := leader.Fetch(ctx, &pb.FetchRequest{
					MaxWaitMs:  500,
					Format:     pb.RecordFormat_RECORD_FORMAT_RECORDS,
					Partitions: []*pb.FetchPartition{{Topic: topic, FetchOffset: offset}},
				})
				return only(answer.GetPartitions(), err)
			})
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

// refused is the error of one partition inside an answer; the call itself went well.
type refused struct{ *pb.ErrorDetail }

func (e refused) Error() string { return e.GetCode() + ": " + e.GetMessage() }

// only is the result for the one partition that was asked for, or its error.
func only[R interface{ GetError() *pb.ErrorDetail }](results []R, err error) (R, error) {
	var none R
	if err != nil {
		return none, err
	}
	if detail := results[0].GetError(); detail != nil {
		return none, refused{detail}
	}
	return results[0], nil
}

// atLeader makes a call at the broker that leads partition 0. Leadership moves when a broker dies, so every
// retriable error means: ask again who leads, and try there.
//
// A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a producer
// id and a sequence number are stored once; making those is what a client library is for.
func atLeader[R any](ctx context.Context, bootstrap, topic string,
	call func(context.Context, pb.BrokerServiceClient) (R, error)) (R, error) {
	for {
		result, err := attempt(ctx, bootstrap, topic, call)
		if err == nil || !isRetriable(err) || ctx.Err() != nil {
			return result, err
		}
		log.Printf("trying again: %v", err)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func attempt[R any](ctx context.Context, bootstrap, topic string,
	call func(context.Context, pb.BrokerServiceClient) (R, error)) (result R, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a broker that hangs is not waited for
	defer cancel()
	address, err := leaderOf(ctx, bootstrap, topic)
	if err != nil {
		return result, err
	}
	connection, err := connect(address) // a program that does more keeps one connection for each broker
	if err != nil {
		return result, err
	}
	defer connection.Close()
	return call(ctx, pb.NewBrokerServiceClient(connection))
}

// leaderOf asks any broker where partition 0 is led.
func leaderOf(ctx context.Context, bootstrap, topic string) (string, error) {
	connection, err := connect(bootstrap)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	metadata, err := pb.NewBrokerServiceClient(connection).GetMetadata(ctx, &pb.GetMetadataRequest{
		Topics: []*pb.TopicReference{{Name: topic}},
	})
	found, err := only(metadata.GetTopics(), err)
	if err != nil {
		return "", err
	}
	for _, broker := range metadata.GetBrokers() {
		if leader := found.GetPartitions()[0].Leader; leader != nil && broker.GetBrokerId() == *leader {
			return broker.GetAddress(), nil
		}
	}
	return "", status.Error(codes.Unavailable, "nobody leads the partition right now")
}

func connect(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// isRetriable decides on the flag that every error of a partition carries, and otherwise on gRPC's status.
func isRetriable(err error) bool {
	var detail refused
	if errors.As(err, &detail) {
		return detail.GetRetriable()
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}
