// The executor tests again, with trusted guests.
process.env["BERTH_TEST_GUESTS"] = "trusted";
const { executorContract } = await import("../support/executor.contract.ts");
const { hostileContract } = await import("../support/executor.hostile.ts");
const { scriptsContract } = await import("../support/executor.scripts.ts");

executorContract("trusted");
hostileContract("trusted");
scriptsContract("trusted");
await import("./escapes.test.ts");
await import("./folders.test.ts");
await import("./questions.test.ts");
await import("./schemas.test.ts");
await import("./scratch.test.ts");
await import("../examples/postgres.extended.test.ts");
await import("../host/calls/folders.test.ts");
await import("../features/state/guest-requests.test.ts");
await import("../network/cuts.test.ts");
await import("../network/guest-sockets.test.ts");
await import("../packages/npm-attacks.test.ts");
