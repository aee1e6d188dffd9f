// All real servers: npm test compares two.
process.env["BERTH_TEST_UPSTREAMS"] = "all";
await import("./pass-through.test.ts");
