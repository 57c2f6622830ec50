import com.google.protobuf.ByteString;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import quorate.v1.Broker.Acks;
import quorate.v1.Broker.FetchPartition;
import quorate.v1.Broker.FetchPartitionResult;
import quorate.v1.Broker.FetchRequest;
import quorate.v1.Broker.GetMetadataRequest;
import quorate.v1.Broker.MetadataBroker;
import quorate.v1.Broker.MetadataPartition;
import quorate.v1.Broker.MetadataTopic;
import quorate.v1.Broker.ProducePartition;
import quorate.v1.Broker.ProducePartitionResult;
import quorate.v1.Broker.ProduceRequest;
import quorate.v1.Broker.RecordFormat;
import quorate.v1.Broker.TopicReference;
import quorate.v1.BrokerServiceGrpc;
import quorate.v1.BrokerServiceGrpc.BrokerServiceBlockingStub;
import quorate.v1.Errors.ErrorDetail;
import quorate.v1.Records.Record;

/**
 * Writes one record to a topic and reads the topic back, with nothing but gRPC and the stubs that Maven makes
 * from the .proto files. How to run it: docs/languages.md.
 */
public final class Hello {
  private static final Duration GIVE_UP = Duration.ofMinutes(1);
  private static final Duration ATTEMPT = Duration.ofSeconds(10); // a broker that hangs is not waited for

  private final String bootstrap;
  private final String topic;

  private Hello(String bootstrap, String topic) {
    this.bootstrap = bootstrap;
    this.topic = topic;
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 2) {
      System.err.println("usage: Hello HOST:PORT TOPIC (any broker, and a topic that exists)");
      System.exit(2);
    }
    new Hello(arguments[0], arguments[1]).run();
  }

  private void run() throws InterruptedException {
    // Write to partition 0. The answer comes once every in-sync replica has the record.
    var record =
        Record.newBuilder()
            .setKey(ByteString.copyFromUtf8("java"))
            .setValue(ByteString.copyFromUtf8("hello from Java"));
    var produce =
        ProduceRequest.newBuilder()
            .setAcks(Acks.ACKS_ALL)
            .addPartitions(ProducePartition.newBuilder().setTopic(topic).addRecords(record))
            .build();
    ProducePartitionResult stored =
        atLeader(
            leader -> {
              var result = leader.produce(produce).getPartitions(0);
              return result.hasError() ? refuse(result.getError()) : result;
            });
    System.out.printf("stored at offset %d%n", stored.getBaseOffset());

    // Read the partition from its first record to ours.
    long offset = stored.getLogStartOffset();
    while (offset < stored.getNextOffset()) {
      var fetch =
          FetchRequest.newBuilder()
              .setMaxWaitMs(500)
              .setFormat(RecordFormat.RECORD_FORMAT_RECORDS)
              .addPartitions(FetchPartition.newBuilder().setTopic(topic).setFetchOffset(offset))
              .build();
      FetchPartitionResult read =
          atLeader(
              leader -> {
                var result = leader.fetch(fetch).getPartitions(0);
                return result.hasError() ? refuse(result.getError()) : result;
              });
      for (Record each : read.getRecordsList()) {
        System.out.printf("%d: %s%n", each.getOffset(), each.getValue().toStringUtf8());
      }
      offset = read.getNextFetchOffset();
    }
  }

  /**
   * Makes a call at the broker that leads partition 0. Leadership moves when a broker dies, so every retriable
   * error means: ask again who leads, and try there.
   *
   * <p>A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a
   * producer id and a sequence number are stored once; making those is what a client library is for.
   */
  private <R> R atLeader(Function<BrokerServiceBlockingStub, R> call) throws InterruptedException {
    Instant deadline = Instant.now().plus(GIVE_UP);
    while (true) {
      try {
        return at(at(bootstrap, this::findLeader), call);
      } catch (Refused | StatusRuntimeException error) {
        if (!isRetriable(error) || Instant.now().isAfter(deadline)) {
          throw error;
        }
        System.err.println("trying again: " + error.getMessage());
        Thread.sleep(200);
      }
    }
  }

  /** Asks any broker where partition 0 is led. */
  private String findLeader(BrokerServiceBlockingStub broker) {
    var request =
        GetMetadataRequest.newBuilder().addTopics(TopicReference.newBuilder().setName(topic)).build();
    var metadata = broker.getMetadata(request);
    MetadataTopic found = metadata.getTopics(0);
    if (found.hasError()) {
      return refuse(found.getError());
    }
    MetadataPartition partition = found.getPartitions(0);
    return metadata.getBrokersList().stream()
        .filter(each -> partition.hasLeader() && each.getBrokerId() == partition.getLeader())
        .map(MetadataBroker::getAddress)
        .findFirst()
        .orElseThrow(() -> new Refused("nobody leads the partition right now", true));
  }

  /** A program that does more keeps one channel for each broker. */
  private static <R> R at(String address, Function<BrokerServiceBlockingStub, R> call) {
    ManagedChannel channel =
        Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    try {
      var stub = BrokerServiceGrpc.newBlockingStub(channel);
      return call.apply(stub.withDeadlineAfter(ATTEMPT.toMillis(), TimeUnit.MILLISECONDS));
    } finally {
      channel.shutdownNow();
    }
  }

  /** The error of one topic or partition inside an answer; the call itself went well. */
  private static final class Refused extends RuntimeException {
    private final boolean isRetriable;

    Refused(String message, boolean isRetriable) {
      super(message);
      this.isRetriable = isRetriable;
    }
  }

  private static <R> R refuse(ErrorDetail error) {
    throw new Refused(error.getCode() + ": " + error.getMessage(), error.getRetriable());
  }

  /** Decides on the flag that every error of a partition carries, and otherwise on gRPC's status. */
  private static boolean isRetriable(RuntimeException error) {
    if (error instanceof Refused refused) {
      return refused.isRetriable;
    }
    Status.Code code = Status.fromThrowable(error).getCode();
    return code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED;
  }
}
