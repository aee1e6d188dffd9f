/** The audit log in Postgres, as it is proved in SQLite. */
process.env["BERTH_TEST_STORE"] = "postgres";
await import("./chain.test.ts");
await import("./retention.test.ts");
await import("./several-writers.test.ts");
await import("./writer.test.ts");
await import("../features/consents/consents.test.ts");
