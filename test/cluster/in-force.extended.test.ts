/** The same with more changes. */
process.env["BERTH_TEST_CHANGES"] = "500";
await import("./in-force.test.ts");
