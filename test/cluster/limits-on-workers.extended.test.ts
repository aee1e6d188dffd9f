/** The same with two workers of one `berth serve`. */
process.env["BERTH_TEST_WORKERS"] = "1";
await import("./limits.test.ts");
