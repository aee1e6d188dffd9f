/** The same over three nodes on one Postgres, each with a data folder of its own. */
process.env["BERTH_TEST_STORE"] = "postgres";
await import("./sessions.test.ts");
