// The isolation of tenants and attacks on authorization once more, against two processes on one data folder;
// `npm test -- --nodes 2` does so with all tests of one Berth.
process.env["BERTH_TEST_NODES"] = "2";
await import("../tenants/isolation.test.ts");
await import("../access/oauth-attacks.test.ts");
