process.env["BERTH_TEST_GUESTS"] = "trusted";
await import("./compiler-confined.test.ts");
