/** The systemd unit of a node, as text. */

export type UnitPlan = {
  /** Whole command line, program first. */
  readonly command: readonly string[];
  /** Of the system manager; undefined: the unit is a user's own. */
  readonly system:
    | {
        readonly user: string;
        /** Below /var/lib; systemd makes it and gives it to the user. */
        readonly stateDirectory: string | undefined;
        /** Containers run as users who must get to their directories below it. */
        readonly isPassable: boolean;
        /** Copied by systemd to where only the agent can read it. */
        readonly tokenFile: string | undefined;
      }
    | undefined;
  /** Containers may not use setuid programs. Off with docker: rootless engines need two of them. */
  readonly isHardened: boolean;
  readonly environment: Readonly<Record<string, string>>;
};

/** Exit codes of the agent after which a new start would only end the same way. */
export const FINAL_EXIT_CODES = [2, 40, 41, 49] as const;
/** Where the unit's command finds its join token; `${…}` is filled in by systemd. */
export const TOKEN_CREDENTIAL = "join-token";

export function unitText({ command, system, isHardened, environment }: UnitPlan): string {
  const lines = [
    "# Written by `selvedge node install`, which writes it anew.",
    "[Unit]",
    "Description=Selvedge NodeManager",
    "Wants=network-online.target",
    "After=network-online.target",
    "# However long the cluster is away, the node comes back.",
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    `ExecStart=${command.map(quoteWord).join(" ")}`,
    "Restart=always",
    "RestartSec=5",
    "# Sent away by the cluster, refused, or started wrongly: a new start would not help.",
    `RestartPreventExitStatus=${FINAL_EXIT_CODES.join(" ")}`,
    "# Containers outlive the agent, and the agent finds them again.",
    "KillMode=process",
    "TimeoutStopSec=60",
    "# One container that runs out of memory is not the node's end.",
    "OOMPolicy=continue",
    "# The agent makes control groups for its containers, beside its own (systemd 254 and newer).",
    "Delegate=yes",
    "DelegateSubgroup=selvedge-agent",
    "TasksMax=infinity",
    "LimitNOFILE=1048576",
    ...systemLines(system),
    ...(isHardened ? ["NoNewPrivileges=yes", "LockPersonality=yes", "RestrictRealtime=yes"] : []),
    ...Object.entries(environment).map(
      ([name, value]) => `Environment=${quoteWord(`${name}=${value}`)}`,
    ),
    "",
    "[Install]",
    `WantedBy=${system ? "multi-user.target" : "default.target"}`,
  ];
  return `${lines.join("\n")}\n`;
}

function systemLines(system: UnitPlan["system"]): string[] {
  if (system === undefined) return [];
  const { user, stateDirectory, isPassable, tokenFile } = system;
  return [
    `User=${user}`,
    ...(stateDirectory === undefined
      ? []
      : [`StateDirectory=${stateDirectory}`, `StateDirectoryMode=${isPassable ? "0711" : "0700"}`]),
    ...(tokenFile === undefined ? [] : [`LoadCredential=${TOKEN_CREDENTIAL}:${tokenFile}`]),
  ];
}

/** systemd's own words: `%` and `$` mean something, but for the credentials' directory. */
function quoteWord(word: string): string {
  const plain = word
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("%", "%%")
    .replaceAll(/\$(?!\{CREDENTIALS_DIRECTORY\})/g, "$$$$");
  return /^[A-Za-z0-9_./:=@+,${}-]+$/.test(plain) ? plain : `"${plain}"`;
}
