/**
 * The `selvedge` command: verbs in, exit code out. Everything a verb throws ends here, as one error
 * report on stderr in the form that was asked for, and the exit code that tells the truth about it.
 */
import { Command, CommanderError, Option } from "commander";
import { VERSION } from "../shared/version.ts";
import { registerCluster } from "./commands/cluster.ts";
import { registerContainer } from "./commands/container.ts";
import { registerContext } from "./commands/context.ts";
import { registerDns } from "./commands/dns.ts";
import { registerLogin } from "./commands/login.ts";
import { registerAllLogs } from "./commands/logs.ts";
import { registerNode, type StartNodeManager } from "./commands/node.ts";
import { registerPackage } from "./commands/package.ts";
import { registerQueue } from "./commands/queue.ts";
import { registerRegistry } from "./commands/registry.ts";
import { registerService } from "./commands/service.ts";
import { registerToken } from "./commands/token.ts";
import { CliError, errorAsJson, formatError, reportOf } from "./errors.ts";
import {
  EXIT_CODE,
  EXIT_CODE_MEANINGS,
  type ExitCode,
  exitCodeOf,
  type Subject,
} from "./exit-codes.ts";
import { Interrupted, type Io } from "./io.ts";
import { FORMATS } from "./output.ts";
import { type GlobalOptions, openSession, type Registrar, type Work } from "./session.ts";

/** What is only loaded when a verb needs it. */
export type Programs = { readonly startNodeManager: StartNodeManager };

/** Runs one command line, without the program's name. Never throws. Answers an ExitCode, or that of a
 * program that was run in a container. */
export async function main(
  argv: readonly string[],
  io: Io,
  programs: Programs = { startNodeManager: startRealNodeManager },
): Promise<number> {
  let subject: Subject = "other";
  let exitCode: number = EXIT_CODE.OK;
  const program = createProgram(io);
  const registrar: Registrar = {
    program,
    action<Options>(command: Command, about: Subject, work: Work<Options>) {
      command.action(async () => {
        subject = about;
        const globals = program.opts<GlobalOptions>();
        const ran = await work(openSession(globals, io), command.args, command.opts() as Options);
        exitCode = ran ?? EXIT_CODE.OK;
      });
    },
  };
  registerService(registrar);
  registerAllLogs(registrar);
  registerContainer(registrar);
  registerPackage(registrar);
  registerNode(registrar, programs.startNodeManager);
  registerQueue(registrar);
  registerRegistry(registrar);
  registerDns(registrar);
  registerLogin(registrar);
  registerContext(registrar);
  registerToken(registrar);
  registerCluster(registrar);
  try {
    // `service list --version 1.0` asks for something else, so the long form stands alone.
    const isVersion = argv.length === 1 && argv[0] === "--version";
    await program.parseAsync(isVersion ? ["-V"] : [...argv], { from: "user" });
    return exitCode;
  } catch (error) {
    return reportError(error, subject, argv, io);
  }
}

function createProgram(io: Io): Command {
  const program = new Command("selvedge")
    .description("YARN at the edge: run services on your machines, from anywhere.")
    .version(VERSION, "-V", "show the version, as `selvedge --version` does")
    .addOption(
      new Option("-o, --output <format>", "form of the result").choices(FORMATS).default("table"),
    )
    .option("-q, --quiet", "the result and errors only: no progress, no notes")
    .option("--verbose", "with an error: its code, request id and stack")
    .option("--context <name>", "cluster to speak to, as `selvedge login` named it")
    .option("--url <url>", "URL of the cluster to speak to")
    .option("--cluster <name>", "name of a cluster below that URL")
    .option("--user <user>", "whose services are meant (administrators)")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => io.stdout.columns || 80,
      getErrHelpWidth: () => io.stderr.columns || 80,
      // Usage errors are reported like all others, by reportError.
      outputError: () => undefined,
    })
    .exitOverride();
  program.addHelpText(
    "after",
    "\nExit codes:\n" +
      Object.entries(EXIT_CODE_MEANINGS)
        .map(([code, meaning]) => `  ${code.padStart(3)}  ${meaning}`)
        .join("\n"),
  );
  return program;
}

function reportError(error: unknown, subject: Subject, argv: readonly string[], io: Io): ExitCode {
  // --help and --version end by an error as well; help for want of a verb is wrong usage.
  if (error instanceof CommanderError && /^commander\.(help|version)/.test(error.code)) {
    return error.exitCode === 0 ? EXIT_CODE.OK : EXIT_CODE.USAGE;
  }
  const aborted: unknown = io.signal.aborted ? io.signal.reason : undefined;
  const isOurs = error instanceof Error && error.name !== "AbortError";
  const told = aborted instanceof Interrupted && !isOurs ? aborted : error;
  const report = reportOf(told, subject);
  const verbose = argv.includes("--verbose");
  const asJson = /(^| )(-o|--output)[ =]?json( |$)/.test(argv.join(" "));
  // The person who pressed Ctrl-C knows it.
  if (told instanceof Interrupted) return report.exitCode;
  io.stderr.write(`${asJson ? errorAsJson(report, verbose) : formatError(report, verbose)}\n`);
  return report.exitCode;
}

const startRealNodeManager: StartNodeManager = async (options) => {
  const { startNodeManager, NodeManagerError } = await import("../agent/main.ts");
  try {
    return await startNodeManager(options);
  } catch (error) {
    if (!(error instanceof NodeManagerError)) throw error;
    const isOfMachine = error.failure.code === "FAILED_PRECONDITION";
    const exitCode = isOfMachine ? EXIT_CODE.NOT_READY : exitCodeOf(error.failure, "other");
    throw new CliError(exitCode, error.failure);
  }
};
