import com.google.protobuf.ByteString;
import quorate.v1.Records.Record;

/**
 * Writes one record to a topic and reads the topic back, with nothing but gRPC and the stubs that Maven makes
 * from the .proto files. How to run it: docs/languages.md.
 */
public final class Hello {
  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 2) {
      System.err.println("usage: Hello HOST:PORT TOPIC (any broker, and a topic that exists)");
      System.exit(2);
    }
    var leader = new Leader(arguments[0], arguments[1]);

    var greeting = ByteString.copyFromUtf8("hello from Java");
    var record = Record.newBuilder().setKey(ByteString.copyFromUtf8("java")).setValue(greeting).build();
    var stored = leader.write(record);
    System.out.printf("stored at offset %d%n", stored.getBaseOffset());

    // Read the partition from its first record to ours.
    long offset = stored.getLogStartOffset();
    while (offset < stored.getNextOffset()) {
      var read = leader.read(offset);
      for (Record each : read.getRecordsList()) {
        System.out.printf("%d: %s%n", each.getOffset(), each.getValue().toStringUtf8());
      }
      offset = read.getNextFetchOffset();
    }
  }
}
