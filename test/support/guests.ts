/** How the guests of tests that concern both kinds run; `executor/trusted` runs those tests again with trusted ones. */
export const GUESTS: "sandboxed" | "trusted" =
  process.env["BERTH_TEST_GUESTS"] === "trusted" || process.platform !== "linux" ? "trusted" : "sandboxed";
