process.env["BERTH_TEST_STORE"] = "postgres";
await import("./copy.test.ts");
