package main

import (
	"context"
	"errors"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "quorate.example/hello/quoratev1"
)

// leader is the broker that leads partition 0 of a topic, whichever that is at the moment.
type leader struct{ bootstrap, topic string }

// write returns once every in-sync replica has the record.
//
// A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a producer
// id and a sequence number are stored once; making those is what a client library is for.
func (l leader) write(ctx context.Context, record *pb.Record) (*pb.ProducePartitionResult, error) {
	request := &pb.ProduceRequest{
		Acks:       pb.Acks_ACKS_ALL,
		Partitions: []*pb.ProducePartition{{Topic: l.topic, Records: []*pb.Record{record}}},
	}
	return retried(ctx, l, func(ctx context.Context, broker pb.BrokerServiceClient) (*pb.ProducePartitionResult, error) {
		answer, err := broker.Produce(ctx, request)
		return only(answer.GetPartitions(), err)
	})
}

// read returns records from the offset on, or none if there are none within half a second.
func (l leader) read(ctx context.Context, offset int64) (*pb.FetchPartitionResult, error) {
	request := &pb.FetchRequest{
		MaxWaitMs:  500,
		Format:     pb.RecordFormat_RECORD_FORMAT_RECORDS,
		Partitions: []*pb.FetchPartition{{Topic: l.topic, FetchOffset: offset}},
	}
	return retried(ctx, l, func(ctx context.Context, broker pb.BrokerServiceClient) (*pb.FetchPartitionResult, error) {
		answer, err := broker.Fetch(ctx, request)
		return only(answer.GetPartitions(), err)
	})
}

type call[R any] func(context.Context, pb.BrokerServiceClient) (R, error)

// retried makes a call at the leader. Leadership moves when a broker dies, so every retriable error means: ask
// again who leads, and try there.
func retried[R any](ctx context.Context, l leader, run call[R]) (R, error) {
	denied := time.Now().Add(5 * time.Second) // a topic that was made just now is known everywhere by then
	for {
		result, err := attempt(ctx, l, run)
		if err == nil || !isRetriable(err) || ctx.Err() != nil || isUnknown(err) && time.Now().After(denied) {
			return result, err
		}
		log.Printf("trying again: %v", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func attempt[R any](ctx context.Context, l leader, run call[R]) (result R, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a broker that hangs is not waited for
	defer cancel()
	address, err := l.address(ctx)
	if err != nil {
		return result, err
	}
	connection, err := connect(address) // a program that does more keeps one connection for each broker
	if err != nil {
		return result, err
	}
	defer connection.Close()
	return run(ctx, pb.NewBrokerServiceClient(connection))
}

// address asks any broker where the partition is led.
func (l leader) address(ctx context.Context) (string, error) {
	connection, err := connect(l.bootstrap)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	metadata, err := pb.NewBrokerServiceClient(connection).GetMetadata(ctx, &pb.GetMetadataRequest{
		Topics: []*pb.TopicReference{{Name: l.topic}},
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

// refused is the error of one topic or partition inside an answer; the call itself went well.
type refused struct{ *pb.ErrorDetail }

func (e refused) Error() string { return e.GetCode() + ": " + e.GetMessage() }

// only is the result for the one topic or partition that was asked for, or its error.
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

// isRetriable decides on the flag that every error of a partition carries, and otherwise on gRPC's status.
func isRetriable(err error) bool {
	var detail refused
	if errors.As(err, &detail) {
		return detail.GetRetriable()
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// isUnknown: the brokers know of no such topic.
func isUnknown(err error) bool {
	var detail refused
	return errors.As(err, &detail) && detail.GetCode() == "UNKNOWN_TOPIC_OR_PARTITION"
}
