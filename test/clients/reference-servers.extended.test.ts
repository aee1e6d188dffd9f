process.env["BERTH_TEST_CLIENTS"] = "command-lines";
await import("./reference-servers.test.ts");
