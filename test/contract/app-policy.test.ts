import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { allowedOrigins, buildPolicy } from "../../src/contract/app-policy.ts";

const OWN = "http://127.0.0.1:4500";
const OTHER = "https://example.org";

const kept = (...connectDomains: unknown[]) => allowedOrigins({ connectDomains }, OWN).allowed.connectDomains ?? [];

describe("the policy of an app", () => {
  it("allows nothing that it does not declare", () => {
    assert.equal(
      buildPolicy({}),
      "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; " +
        "img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; frame-src 'none'; " +
        "base-uri 'none'; object-src 'none'; form-action 'none'; frame-ancestors 'self'",
    );
  });

  it("allows each origin for what it is declared for alone", () => {
    const directives = {
      connectDomains: ["connect-src"],
      resourceDomains: ["script-src", "style-src", "img-src", "font-src", "media-src"],
      frameDomains: ["frame-src"],
      baseUriDomains: ["base-uri"],
    };
    for (const [list, names] of Object.entries(directives)) {
      const { allowed } = allowedOrigins({ [list]: [OTHER] }, OWN);
      const having = buildPolicy(allowed)
        .split("; ")
        .filter((directive) => directive.includes(OTHER))
        .map((directive) => directive.split(" ")[0]);
      assert.deepEqual(having, names, list);
    }
  });

  it("takes origins alone: nothing that ends a directive, is a keyword, or means every site", () => {
    const origins = [OTHER, "wss://*.example.org:8443", "http://localhost:1"];
    assert.deepEqual(kept(...origins), origins);
    for (const other of [
      "*",
      "https:",
      "https://*",
      "data:",
      "'self'",
      "'unsafe-eval'",
      `${OTHER}/path`,
      `${OTHER}; script-src *`,
      `${OTHER} *`,
      `${OTHER}\nX-Header: 1`,
      "https://user@example.org",
      "javascript:alert(1)",
      7,
      null,
    ]) {
      assert.deepEqual(kept(other), [], String(other));
    }
    const { leftOut } = allowedOrigins({ connectDomains: ["*", OTHER] }, OWN);
    assert.deepEqual(leftOut, ["*"]);
  });

  it("takes no origin of Berth's own, under whatever name of this machine, and another one of its ports", () => {
    for (const own of [
      OWN,
      `${OWN}/`,
      "ws://127.0.0.1:4500",
      "http://localhost:4500",
      "http://LOCALHOST:4500",
      "http://app.localhost:4500",
      "http://127.1:4500",
      "http://0.0.0.0:4500",
      "http://localhost:04500",
    ]) {
      assert.deepEqual(kept(own), [], own);
    }
    assert.deepEqual(kept("http://127.0.0.1:4501"), ["http://127.0.0.1:4501"]);
    const ofSite = (own: string, declared: string) =>
      allowedOrigins({ connectDomains: [declared] }, own).allowed.connectDomains;
    assert.equal(ofSite("https://berth.example.org", "https://*.example.org"), undefined);
    assert.equal(ofSite("https://berth.example.org", "https://berth.example.org:443"), undefined);
    assert.equal(ofSite("https://berth.example.org", "wss://BERTH.example.org"), undefined);
  });

  it("takes 64 origins of each list", () => {
    const many = Array.from({ length: 65 }, (_, index) => `https://site${index}.example.org`);
    assert.deepEqual(kept(...many), many.slice(0, 64));
    assert.deepEqual(allowedOrigins({ connectDomains: many }, OWN).leftOut, many.slice(64));
  });
});
