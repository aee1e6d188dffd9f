/**
 * The filter of system calls for all confined programs (`seccomp(2)`), in the kernel's format: an array of `struct
 * sock_filter`. Namespaces and limits leave a program much of the kernel that it does not need, and in which most
 * escapes from sandboxes began. A refused call fails as if the kernel did not have it or did not permit it, so that
 * programs do without; a program that calls through another ABI, which would bypass all of this, is killed.
 *
 * The kernel keeps data written to a socket in memory that counts to no process, so few have sockets, and those have the
 * system's default length.
 */
export function seccompFilter(architecture: string, sockets: ConfinedSockets): Buffer | undefined {
  const isLocal = sockets === "local" || sockets === "local and tcp";
  const speaksTcp = sockets === "tcp" || sockets === "local and tcp";
  const known = architectures[architecture];
  if (!known) return undefined;
  const { audit, column, foreignFrom } = known;
  const numberOf = (name: keyof typeof numbers): number => numbers[name][column];

  return encoded([
    load(ARCHITECTURE),
    ...unless(audit, KILL),
    load(NUMBER),
    ...(foreignFrom === undefined ? [] : [instruction(JUMP_AT_LEAST, foreignFrom, 0, 1), answer(KILL)]),
    instruction(JUMP_ABOVE, LAST_KNOWN, 0, 1),
    answer(refuse(ENOSYS)),
    ...refused.flatMap((name) => {
      const number = (refusedNumbers[name] as Numbers)[column];
      return number === undefined ? [] : when(number, [answer(refuse(EPERM))]);
    }),
    // Its flags are in memory, which no filter can read; the C library then calls `clone`.
    ...when(numberOf("clone3"), [answer(refuse(ENOSYS))]),
    ...when(numberOf("clone"), refusingFlags(NAMESPACES)),
    ...when(numberOf("unshare"), refusingFlags(NAMESPACES | NEW_TIME)),
    ...when(numberOf("personality"), [
      load(argument(0)),
      ...when(ASKS_PERSONALITY, [answer(ALLOW)]),
      ...when(0, [answer(ALLOW)]),
      answer(refuse(EPERM)),
    ]),
    ...when(numberOf("ioctl"), [
      load(argument(1)),
      ...terminalInputs.flatMap((request) => when(request, [answer(refuse(EPERM))])),
      answer(ALLOW),
    ]),
    // Pages of a shared anonymous mapping stay when all but one of its pages are unmapped; huge pages count nowhere.
    ...when(numberOf("mmap"), [
      load(argument(3)),
      instruction(JUMP_ANY_BIT, MAP_HUGETLB, 0, 1),
      answer(refuse(EPERM)),
      instruction(AND, MAP_SHARED_ANONYMOUS),
      ...when(MAP_SHARED_ANONYMOUS, [answer(refuse(EPERM))]),
      answer(ALLOW),
    ]),
    ...when(numberOf("prctl"), [
      load(argument(0)),
      ...when(PR_SET_SECCOMP, [answer(refuse(EPERM))]),
      instruction(JUMP_ABOVE, LAST_PRCTL, 0, 1),
      answer(refuse(EINVAL)),
      answer(ALLOW),
    ]),
    // Locks of an open file description name no process, so they could not be counted (`recordLocksOf`).
    ...when(numberOf("fcntl"), [
      load(argument(1)),
      ...OFD_LOCKS.flatMap((command) => when(command, [answer(refuse(EINVAL))])),
      answer(ALLOW),
    ]),
    // The kernel does not count access control lists, up to 64 KiB for each file in memory.
    ...setsAttributes.flatMap((name) => when(numberOf(name), [answer(refuse(EOPNOTSUPP))])),
    ...when(numberOf("socketpair"), [
      ...(isLocal ? [load(argument(0)), ...when(AF_UNIX, [answer(ALLOW)])] : []),
      answer(refuse(EAFNOSUPPORT)),
    ]),
    ...when(numberOf("socket"), [
      load(argument(0)),
      ...(isLocal ? when(AF_UNIX, [answer(ALLOW)]) : []),
      ...(sockets === "out" ? when(AF_UNIX, streamsOnly([answer(ALLOW)])) : []),
      ...(speaksTcp
        ? [AF_INET, AF_INET6].flatMap((family) => when(family, streamsOnly(protocolOf([0, IPPROTO_TCP]))))
        : []),
      // Lists network interfaces, of which there are none.
      ...when(AF_NETLINK, protocolOf([NETLINK_ROUTE])),
      answer(refuse(EAFNOSUPPORT)),
    ]),
    ...(isLocal ? [] : when(numberOf("listen"), [answer(refuse(EPERM))])),
    ...when(numberOf("setsockopt"), [
      load(argument(1)),
      // Other protocols above TCP, in the kernel.
      ...when(IPPROTO_TCP, [load(argument(2)), ...when(TCP_ULP, [answer(refuse(EPERM))]), answer(ALLOW)]),
      instruction(JUMP_EQUAL, SOL_SOCKET, 1, 0),
      answer(ALLOW),
      load(argument(2)),
      ...bufferLengths.flatMap((option) => when(option, [answer(refuse(NOTHING_DONE))])),
      answer(ALLOW),
    ]),
    answer(ALLOW),
  ]);
}

/**
 * `local`: to the program's own processes, and to whoever listens in the folders that it sees. `out`: connections to such
 * listeners alone, so that nothing can be written that nobody else reads. `none`: nothing can be written to anybody.
 * `tcp`: connections over TCP alone, in a network of its own; no socket in a folder can be reached by them.
 */
export type ConfinedSockets = "local" | "out" | "none" | "tcp" | "local and tcp";

/** `[x86_64, aarch64]`; undefined where an architecture has no such call. */
type Numbers = readonly [number | undefined, number | undefined];

/** From 424 on a call has the same number everywhere. Calls after the last one are refused until they are reviewed. */
const LAST_KNOWN = 469;

const refusedNumbers = {
  // Files other than the mounted ones, and other mounts.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  swapon: [167, 224],
  swapoff: [168, 225],
  setns: [308, 268],
  // Large parts of the kernel with a bad history.
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  bpf: [321, 280],
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  vmsplice: [278, 75],
  remap_file_pages: [216, 234],
  lookup_dcookie: [212, 18],
  modify_ldt: [154, undefined],
  // Other processes from within.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  // Memory that counts to no process, or is moved between them.
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  landlock_create_ruleset: [444, 444],
  landlock_add_rule: [445, 445],
  landlock_restrict_self: [446, 446],
  seccomp: [317, 277],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  set_mempolicy_home_node: [450, 450],
  // The machine itself.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  acct: [163, 89],
  syslog: [103, 116],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  vhangup: [153, 58],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  // Leftovers of former times.
  create_module: [174, undefined],
  get_kernel_syms: [177, undefined],
  query_module: [178, undefined],
  nfsservctl: [180, 42],
  uselib: [134, undefined],
  ustat: [136, undefined],
  sysfs: [139, undefined],
  _sysctl: [156, undefined],
} as const satisfies Readonly<Record<string, Numbers>>;

const refused = Object.keys(refusedNumbers) as (keyof typeof refusedNumbers)[];

/** Calls that are refused for some arguments alone. */
const numbers = {
  clone: [56, 220],
  clone3: [435, 435],
  unshare: [272, 97],
  personality: [135, 92],
  ioctl: [16, 29],
  socket: [41, 198],
  socketpair: [53, 199],
  setsockopt: [54, 208],
  listen: [50, 201],
  mmap: [9, 222],
  prctl: [157, 167],
  fcntl: [72, 25],
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  setxattrat: [463, 463],
} as const satisfies Readonly<Record<string, Numbers>>;

const setsAttributes = ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"] as const;

interface Architecture {
  /** `AUDIT_ARCH_…` of `linux/audit.h`. */
  readonly audit: number;
  readonly column: 0 | 1;
  /** Numbers from here on belong to another ABI of the same architecture (x32). */
  readonly foreignFrom?: number;
}

const architectures: Readonly<Record<string, Architecture>> = {
  x64: { audit: 0xc000_003e, column: 0, foreignFrom: 0x4000_0000 },
  arm64: { audit: 0xc000_00b7, column: 1 },
};

/** Cgroups, host names, IPC, users, processes, networks and mounts: `CLONE_NEW…` of `linux/sched.h`. */
const NAMESPACES = 0x7e02_0000;
const NEW_TIME = 0x80;
/** The argument that only asks for the personality of a process. */
const ASKS_PERSONALITY = 0xffff_ffff;
const MAP_HUGETLB = 0x4_0000;
/** `MAP_SHARED | MAP_ANONYMOUS` */
const MAP_SHARED_ANONYMOUS = 0x21;
const PR_SET_SECCOMP = 22;
/** `PR_GET_MDWE`. A later option, `PR_FUTEX_HASH`, allocates as much kernel memory as it is asked for. */
const LAST_PRCTL = 66;
/** `F_OFD_SETLK`, `F_OFD_SETLKW` */
const OFD_LOCKS = [37, 38];
/** `TIOCSTI`, `TIOCLINUX`: text that a terminal takes for typed. */
const terminalInputs = [0x5412, 0x541c];
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16] as const;
const IPPROTO_TCP = 6;
const TCP_ULP = 31;
const NETLINK_ROUTE = 0;
const SOCK_STREAM = 1;
/** `SOCK_TYPE_MASK` */
const SOCKET_KIND = 0xf;
const SOL_SOCKET = 1;
/** `SO_SNDBUF`, `SO_RCVBUF`, `SO_SNDBUFFORCE`, `SO_RCVBUFFORCE`: requests that the kernel may ignore as well. */
const bufferLengths = [7, 8, 32, 33];

const [EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT] = [1, 22, 38, 93, 95, 97] as const;
/** Reported as success. */
const NOTHING_DONE = 0;
const KILL = 0x8000_0000;
const ALLOW = 0x7fff_0000;
const refuse = (error: number): number => 0x0005_0000 + error;

/** The offsets in `struct seccomp_data`. */
const [NUMBER, ARCHITECTURE] = [0, 4] as const;
/** The offset of an argument's lower half: the kernel ignores the rest of the arguments checked here. */
const argument = (index: number): number => 16 + 8 * index;

/** `code`, `jt`, `jf`, `k` of `struct sock_filter`: how far to jump when it holds, and when not. */
interface Instruction {
  readonly code: number;
  readonly ifSo: number;
  readonly ifNot: number;
  readonly value: number;
}

const AND = 0x54;
const [LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN] = [0x20, 0x15, 0x25, 0x35, 0x45, 0x06];

function instruction(code: number, value: number, ifSo = 0, ifNot = 0): Instruction {
  return { code, ifSo, ifNot, value };
}

function load(offset: number): Instruction {
  return instruction(LOAD, offset);
}

function answer(value: number): Instruction {
  return instruction(RETURN, value);
}

/** `block` has to end with an answer. */
function when(value: number, block: readonly Instruction[]): Instruction[] {
  return [instruction(JUMP_EQUAL, value, 0, block.length), ...block];
}

function unless(value: number, verdict: number): Instruction[] {
  return [instruction(JUMP_EQUAL, value, 1, 0), answer(verdict)];
}

function refusingFlags(flags: number): Instruction[] {
  return [load(argument(0)), instruction(JUMP_ANY_BIT, flags, 0, 1), answer(refuse(EPERM)), answer(ALLOW)];
}

/** Flags share the argument with the kind of socket. */
function streamsOnly(block: readonly Instruction[]): Instruction[] {
  return [
    load(argument(1)),
    instruction(AND, SOCKET_KIND),
    ...when(SOCK_STREAM, block),
    answer(refuse(EPROTONOSUPPORT)),
  ];
}

function protocolOf(protocols: readonly number[]): Instruction[] {
  const allowed = protocols.flatMap((protocol) => when(protocol, [answer(ALLOW)]));
  return [load(argument(2)), ...allowed, answer(refuse(EPROTONOSUPPORT))];
}

function encoded(instructions: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * 8);
  for (const [index, { code, ifSo, ifNot, value }] of instructions.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifSo, index * 8 + 2);
    bytes.writeUInt8(ifNot, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}
