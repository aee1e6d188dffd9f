/** Hostile guests that are given folders and a network. */
import { hostileContract } from "../support/executor.hostile.ts";

if (process.platform === "linux") hostileContract("sandboxed", "folders and a network");
hostileContract("trusted", "folders and a network");
