// Writes one record to a topic and reads the topic back, with nothing but gRPC and the .proto files.
// How to run it: docs/languages.md.

import { Leader } from "./leader.js";

const [bootstrap, topic] = process.argv.slice(2);
if (!topic) {
  console.error("usage: node hello.js HOST:PORT TOPIC (any broker, and a topic that exists)");
  process.exit(2);
}
const leader = new Leader(bootstrap, topic);

const stored = await leader.write({ key: Buffer.from("node"), value: Buffer.from("hello from Node") });
console.log(`stored at offset ${stored.base_offset}`);

// Read the partition from its first record to ours.
let offset = stored.log_start_offset;
while (BigInt(offset) < BigInt(stored.next_offset)) {
  const read = await leader.read(offset);
  for (const { offset, value } of read.records ?? []) console.log(`${offset}: ${value}`);
  offset = read.next_fetch_offset;
}
