process.env["BERTH_TEST_EACH_FLIP"] = "1";
await import("./flipped-bits.test.ts");
