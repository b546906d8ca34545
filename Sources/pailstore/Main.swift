import ArgumentParser
import Basics
import Glibc

/// Runs the command: exit status 0 after an orderly stop, 1 when it cannot serve, 2 for wrong arguments.
@main
enum Main {
    static func main() {
        do {
            var command = try Pailstore.parseAsRoot(
                Array(ProcessArguments.all(given: CommandLine.arguments).dropFirst()))
            try command.run()
        } catch {
            guard Pailstore.exitCode(for: error) == .validationFailure else { Pailstore.exit(withError: error) }
            print(Pailstore.fullMessage(for: error), toDescriptor: STDERR_FILENO)
            exit(2)
        }
    }
}
