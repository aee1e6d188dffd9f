import assert from "node:assert/strict";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { packageRoot } from "../src/config.ts";
import { bundleDefinition } from "../src/discover/bundle.ts";
import { gatherDefinition } from "../src/discover/gather.ts";
import { openGuest, type GuestChild } from "./guest-child.ts";

export const templates = join(packageRoot, "reference_templates");

/** The bundle of a reference definition, made from the file that stands in the repository. */
export async function bundleTemplate(entry: string): Promise<string> {
  const { files, problems } = await gatherDefinition(templates, entry);
  assert.deepEqual(problems, []);
  const result = await bundleDefinition({ language: "typescript", server: entry.replace(/\..*/, ""), entry, files });
  assert.deepEqual(result.problems, []);
  return result.bundle!;
}

export async function openTemplate(context: Pick<TestContext, "after">, entry: string): Promise<GuestChild> {
  return openGuest(context, await bundleTemplate(entry));
}
