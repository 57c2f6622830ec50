import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

// There is nothing to generate: the stubs are made from the .proto files when the program starts.
const definition = protoLoader.loadSync("quorate/v1/broker.proto", {
  includeDirs: [fileURLToPath(new URL("../../proto", import.meta.url))],
  keepCase: true, // the names as in the .proto files
  enums: String,
  longs: String, // offsets have 64 bits, numbers of JavaScript have 53
});
const { BrokerService } = grpc.loadPackageDefinition(definition).quorate.v1;

const GIVE_UP_MS = 60_000;
const DENIED_MS = 5_000; // a topic that was made just now is known everywhere by then
const ATTEMPT_MS = 10_000; // a broker that hangs is not waited for

// The broker that leads partition 0 of a topic, whichever that is at the moment.
export class Leader {
  constructor(bootstrap, topic) {
    this.bootstrap = bootstrap;
    this.topic = topic;
  }

  // Resolves once every in-sync replica has the record.
  //
  // A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a producer
  // id and a sequence number are stored once; making those is what a client library is for.
  write(record) {
    const partitions = [{ topic: this.topic, partition: 0, records: [record] }];
    return this.#retried("Produce", { acks: "ACKS_ALL", partitions });
  }

  // Records from the offset on, or none if there are none within half a second.
  read(offset) {
    const partitions = [{ topic: this.topic, partition: 0, fetch_offset: offset }];
    return this.#retried("Fetch", { max_wait_ms: 500, format: "RECORD_FORMAT_RECORDS", partitions });
  }

  // Leadership moves when a broker dies, so every retriable error means: ask again who leads, and try there.
  async #retried(method, request) {
    const began = Date.now();
    for (;;) {
      try {
        const answer = await call(await this.#address(), method, request);
        return checked(answer.partitions[0]);
      } catch (error) {
        const patience = error.code === "UNKNOWN_TOPIC_OR_PARTITION" ? DENIED_MS : GIVE_UP_MS;
        if (!isRetriable(error) || Date.now() - began > patience) throw error;
        console.error(`trying again: ${error.message}`);
        await pause(1_000);
      }
    }
  }

  // Asks any broker where the partition is led.
  async #address() {
    const metadata = await call(this.bootstrap, "GetMetadata", { topics: [{ name: this.topic }] });
    const { leader } = checked(metadata.topics[0]).partitions[0];
    const broker = metadata.brokers.find(({ broker_id }) => broker_id === leader);
    const none = { code: "NO_LEADER", message: "nobody leads the partition right now", retriable: true };
    if (!broker) throw new Refused(none);
    return broker.address;
  }
}

// A program that does more keeps one stub for each broker.
function call(address, method, request) {
  const stub = new BrokerService(address, grpc.credentials.createInsecure());
  return new Promise((resolve, reject) => {
    stub[method](request, { deadline: Date.now() + ATTEMPT_MS }, (error, answer) => {
      stub.close();
      if (error) reject(error);
      else resolve(answer);
    });
  });
}

// The error of one topic or partition inside an answer; the call itself went well.
class Refused extends Error {
  constructor({ code, message, retriable }) {
    super(`${code}: ${message}`);
    this.code = code;
    this.retriable = Boolean(retriable);
  }
}

function checked(result) {
  if (result.error) throw new Refused(result.error);
  return result;
}

// Decides on the flag that every error of a partition carries, and otherwise on gRPC's status.
function isRetriable(error) {
  if (error instanceof Refused) return error.retriable;
  return error.code === grpc.status.UNAVAILABLE || error.code === grpc.status.DEADLINE_EXCEEDED;
}
