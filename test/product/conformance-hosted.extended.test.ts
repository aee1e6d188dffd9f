import { test } from "node:test";
import { passesConformance } from "../support/conformance.ts";

/** Fewer than directly: without a stream that is closed and resumed, and an answer that nobody has asked for. */
const HOSTED_PASSED_AT_LEAST = {
  "2025-03-26": 3,
  "2025-06-18": 56,
  "2025-11-25": 83,
  "2026-07-28": 151,
  "requirements of 2025-11-25": 83,
  "requirements of 2026-07-28": 195,
  tasks: 44,
  skills: 45,
};

test("the official conformance suite passes on a Berth that hosts a Berth at an address (J9)", async () => {
  await passesConformance(["--hosted"], HOSTED_PASSED_AT_LEAST);
});

test("the official conformance suite passes on a Berth that hosts a Berth as a program (J9)", async () => {
  await passesConformance(["--hosted-stdio"], HOSTED_PASSED_AT_LEAST);
});
