import ArgumentParser
import Basics
import Emulator
import Glibc

/// `pailstore DIR`: serves an object store from a directory until it is told to stop.
struct Pailstore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pailstore",
        abstract: "Serve a local object store that speaks five protocols and checks every signature.",
        discussion: "Once it serves, it prints one line of JSON with its endpoint. See pailstore(1).")

    @Argument(help: "The directory that holds the buckets; made if missing.")
    var directory: String

    @Option(help: "Where to listen; port 0 lets the kernel choose.")
    var listen = "127.0.0.1:9000"

    @Flag(help: "Permit an address that other machines reach.")
    var allowRemote = false

    @Option(help: "The access key that signs requests.")
    var accessKey = "pailstore"

    @Option(help: "The secret key.")
    var secretKey = "pailstore-secret"

    @Option(help: "A session token that requests must carry.")
    var sessionToken: String?

    @Option(name: .customLong("bucket"), help: "A bucket to make unless it is there; may be repeated.")
    var buckets: [String] = []

    @Flag(help: "Enable versioning in the buckets that --bucket makes.")
    var versioning = false

    @Option(help: "The region of new buckets.")
    var region = "us-east-1"

    @Option(
        name: .customLong("domain"), help: "A host name below which the first labels are a bucket; may be repeated.")
    var domains: [String] = []

    @Option(help: "Append one line of JSON for each request to this file.")
    var logRequests: String?

    @Option(name: .customLong("fault"), help: "What goes wrong, as in op=GetObject,probability=0.1,kind=status:503.")
    var faults: [String] = []

    @Option(help: "Makes faults with a probability repeatable.")
    var seed: UInt64 = 0

    @Option(help: "The smallest size of a part other than the last, such as 5MiB.")
    var minimumPart = "5MiB"

    @Option(help: "How long restoring an archived object takes, such as 30s.")
    var restoreDelay = "1s"

    @Flag(help: "Answer writes only when they are on the disk.")
    var sync = false

    func run() throws {
        let options = try makeOptions()
        // Before any thread starts, so that every thread inherits the mask and only the wait below sees the signals.
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&signals, signal) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        signal(SIGPIPE, SIG_IGN)

        let pool = WorkerPool(threads: 1, name: "pailstore-main")
        let directory = directory
        let server = try wait(on: pool) { () async throws(EmulatorError) in
            try await EmulatorServer.start(directory: directory, options: options)
        }
        printReadyLine(server)
        var received: Int32 = 0
        sigwait(&signals, &received)
        _ = try wait(on: pool) { () async throws(EmulatorError) in await server.stop() }
    }

    private func makeOptions() throws -> EmulatorOptions {
        var options = EmulatorOptions()
        guard let mark = listen.lastIndex(of: ":"), let port = UInt16(listen[listen.index(after: mark)...]) else {
            throw ValidationError("--listen wants HOST:PORT, not '\(listen)'")
        }
        options.host = listen[..<mark].filter { $0 != "[" && $0 != "]" }
        options.port = Int(port)
        options.allowsRemote = allowRemote
        options.credentials = EmulatorCredentials(
            accessKey: accessKey, secretKey: secretKey, sessionToken: sessionToken)
        options.region = region
        options.buckets = buckets
        options.keepsVersions = versioning
        options.domains += domains.map { $0.lowercased() }
        options.requestLog = logRequests
        do { options.faults = try faults.map { (text) throws(FaultSyntaxError) in try FaultSpec(parsing: text) } } catch
        {
            throw ValidationError("\(error)")
        }
        options.seed = seed
        guard let smallestPart = ByteSize.parse(minimumPart) else {
            throw ValidationError("--minimum-part wants a size, not '\(minimumPart)'")
        }
        options.smallestPart = smallestPart
        guard let delay = DurationText.parse(restoreDelay) else {
            throw ValidationError("--restore-delay wants a duration, not '\(restoreDelay)'")
        }
        options.restoreDelay = delay
        options.sync = sync
        options.report = { sentence in print(sentence, toDescriptor: STDERR_FILENO) }
        return options
    }

    private func printReadyLine(_ server: EmulatorServer) {
        let endpoints = server.endpoints.map { "\(JSONText.quote($0.name)):\(JSONText.quote($0.url))" }
        print(
            "{\(endpoints.joined(separator: ",")),\"access_key\":\(JSONText.quote(accessKey)),\"region\":\(JSONText.quote(region)),"
                + "\"pid\":\(getpid())}", toDescriptor: STDOUT_FILENO)
    }

    /// Blocks the main thread until `body` is done on the pool.
    private func wait<Value: Sendable>(
        on pool: WorkerPool, _ body: @escaping @Sendable () async throws(EmulatorError) -> Value
    ) throws -> Value {
        let done = Semaphore()
        let answer = Answer<Value>()
        pool.start {
            do throws(EmulatorError) { answer.set(.success(try await body())) } catch { answer.set(.failure(error)) }
            done.signal()
        }
        done.wait()
        switch answer.value {
        case .success(let value)?: return value
        case .failure(let error)?:
            print("pailstore: \(error)", toDescriptor: STDERR_FILENO)
            throw ExitCode(1)
        case nil: fatalError("a task ended without an answer")
        }
    }
}
