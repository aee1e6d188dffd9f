import { executorContract } from "./executor.contract.ts";
import { hostileContract } from "./executor.hostile.ts";

executorContract("sandboxed");
hostileContract("sandboxed");
