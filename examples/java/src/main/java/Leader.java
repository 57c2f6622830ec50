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

/** The broker that leads partition 0 of a topic, whichever that is at the moment. */
final class Leader {
  private static final Duration GIVE_UP = Duration.ofMinutes(1);
  // A topic that was made just now is known everywhere by then.
  private static final Duration DENIED = Duration.ofSeconds(5);
  private static final Duration ATTEMPT = Duration.ofSeconds(10); // a broker that hangs is not waited for

  private final String bootstrap;
  private final String topic;

  Leader(String bootstrap, String topic) {
    this.bootstrap = bootstrap;
    this.topic = topic;
  }

  /**
   * Returns once every in-sync replica has the record.
   *
   * <p>A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a
   * producer id and a sequence number are stored once; making those is what a client library is for.
   */
  ProducePartitionResult write(Record record) throws InterruptedException {
    var request =
        ProduceRequest.newBuilder()
            .setAcks(Acks.ACKS_ALL)
            .addPartitions(ProducePartition.newBuilder().setTopic(topic).addRecords(record))
            .build();
    return retried(
        broker -> {
          var result = broker.produce(request).getPartitions(0);
          return result.hasError() ? refuse(result.getError()) : result;
        });
  }

  /** Records from the offset on, or none if there are none within half a second. */
  FetchPartitionResult read(long offset) throws InterruptedException {
    var request =
        FetchRequest.newBuilder()
            .setMaxWaitMs(500)
            .setFormat(RecordFormat.RECORD_FORMAT_RECORDS)
            .addPartitions(FetchPartition.newBuilder().setTopic(topic).setFetchOffset(offset))
            .build();
    return retried(
        broker -> {
          var result = broker.fetch(request).getPartitions(0);
          return result.hasError() ? refuse(result.getError()) : result;
        });
  }

  /** Leadership moves when a broker dies, so every retriable error means: ask again who leads, and try there. */
  private <R> R retried(Function<BrokerServiceBlockingStub, R> call) throws InterruptedException {
    Instant began = Instant.now();
    while (true) {
      try {
        return at(at(bootstrap, this::address), call);
      } catch (Refused | StatusRuntimeException error) {
        Duration patience = isUnknown(error) ? DENIED : GIVE_UP;
        if (!isRetriable(error) || Instant.now().isAfter(began.plus(patience))) {
          throw error;
        }
        System.err.println("trying again: " + error.getMessage());
        Thread.sleep(1_000);
      }
    }
  }

  /** Asks any broker where the partition is led. */
  private String address(BrokerServiceBlockingStub broker) {
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
        .orElseThrow(() -> new Refused("NO_LEADER", "nobody leads the partition right now", true));
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
    private final String code;
    private final boolean isRetriable;

    Refused(String code, String message, boolean isRetriable) {
      super(code + ": " + message);
      this.code = code;
      this.isRetriable = isRetriable;
    }
  }

  private static <R> R refuse(ErrorDetail error) {
    throw new Refused(error.getCode(), error.getMessage(), error.getRetriable());
  }

  /** The brokers know of no such topic. */
  private static boolean isUnknown(RuntimeException error) {
    return error instanceof Refused refused && refused.code.equals("UNKNOWN_TOPIC_OR_PARTITION");
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
