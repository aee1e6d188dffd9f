/** Also with real clients. */
process.env["BERTH_TEST_CLIENTS"] = "real";
await import("./resumption-restart.test.ts");
