// Writes one record to a topic and reads the topic back, with nothing but gRPC and the .proto files.
// How to run it: docs/languages.md.

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
const ATTEMPT_MS = 10_000; // a broker that hangs is not waited for

async function hello(bootstrap, topic) {
  // Write to partition 0. The answer comes once every in-sync replica has the record.
  const record = { key: Buffer.from("node"), value: Buffer.from("hello from Node") };
  const stored = await atLeader(bootstrap, topic, "Produce", {
    acks: "ACKS_ALL",
    partitions: [{ topic, partition: 0, records: [record] }],
  });
  console.log(`stored at offset ${stored.base_offset}`);

  // Read the partition from its first record to ours.
  let offset = stored.log_start_offset;
  while (BigInt(offset) < BigInt(stored.next_offset)) {
    const read = await atLeader(bootstrap, topic, "Fetch", {
      max_wait_ms: 500,
      format: "RECORD_FORMAT_RECORDS",
      partitions: [{ topic, partition: 0, fetch_offset: offset }],
    });
    for (const { offset, value } of read.records ?? []) console.log(`${offset}: ${value}`);
    offset = read.next_fetch_offset;
  }
}

// Makes a call at the broker that leads partition 0. Leadership moves when a broker dies, so every retriable
// error means: ask again who leads, and try there.
//
// A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a producer
// id and a sequence number are stored once; making those is what a client library is for.
async function atLeader(bootstrap, topic, method, request) {
  const deadline = Date.now() + GIVE_UP_MS;
  for (;;) {
    try {
      const leader = await leaderOf(bootstrap, topic);
      const answer = await call(leader, method, request);
      return checked(answer.partitions[0]);
    } catch (error) {
      if (!isRetriable(error) || Date.now() > deadline) throw error;
      console.error(`trying again: ${error.message}`);
      await pause(200);
    }
  }
}

// Asks any broker where partition 0 is led.
async function leaderOf(bootstrap, topic) {
  const metadata = await call(bootstrap, "GetMetadata", { topics: [{ name: topic }] });
  const { leader } = checked(metadata.topics[0]).partitions[0];
  const broker = metadata.brokers.find(({ broker_id }) => broker_id === leader);
  const none = { code: "NO_LEADER", message: "nobody leads the partition right now", retriable: true };
  if (!broker) throw new Refused(none);
  return broker.address;
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

const [bootstrap, topic] = process.argv.slice(2);
if (!topic) {
  console.error("usage: node hello.js HOST:PORT TOPIC (any broker, and a topic that exists)");
  process.exit(2);
}
await hello(bootstrap, topic);
