import Basics
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Why a server did not start.
package enum EmulatorError: Error, Sendable, CustomStringConvertible {
    case storage(StorageError)
    case bucketName(String)
    /// An address that other machines reach, without leave to serve it.
    case remoteAddress(String)
    case listening(address: String, reason: String)

    package var description: String {
        switch self {
        case .storage(let error): error.description
        case .bucketName(let name): "'\(name)' is no bucket name: 3 to 63 lower-case letters, digits, '.' and '-'"
        case .remoteAddress(let host):
            "\(host) is reachable from other machines and the secret key is public; --allow-remote permits it"
        case .listening(let address, let reason): "cannot listen on \(address): \(reason)"
        }
    }
}

/// A running object store: one listening socket for each dialect over the objects of one directory.
///
/// Connections live on NIO's event loops, which never touch a file except through sendfile(2); every request is a task
/// on the server's own worker threads, which may block. Runs until `stop`.
package final class EmulatorServer: Sendable {
    /// A dialect's socket and what serves its requests.
    private struct Listener: Sendable {
        let name: String
        let channel: any Channel
        let engine: RequestEngine
        var port: Int { channel.localAddress?.port ?? 0 }
    }

    package let library: ObjectLibrary
    private let control: ServerControl
    private let group: MultiThreadedEventLoopGroup
    private let listeners: [Listener]
    private let connections: OpenConnections
    private let host: String

    private init(
        listeners: [Listener], group: MultiThreadedEventLoopGroup, control: ServerControl, library: ObjectLibrary,
        connections: OpenConnections, host: String
    ) {
        self.connections = connections
        self.listeners = listeners
        self.group = group
        self.control = control
        self.library = library
        self.host = host
    }

    /// Every dialect, S3 first; each listens one port above the one before it.
    private static func dialects(_ library: ObjectLibrary, _ options: EmulatorOptions) -> [any Dialect] {
        [
            S3Dialect(library: library, options: options),
            OSSDialect(library: library, options: options),
            COSDialect(library: library, options: options),
            KodoDialect(library: library, options: options),
            CSSPDialect(library: library, options: options),
        ]
    }

    /// The port the S3 dialect listens on.
    package var port: Int { listeners[0].port }

    /// `http://HOST:PORT` of the S3 dialect.
    package var endpoint: String { url(listeners[0]) }

    /// `http://HOST:PORT` of each dialect with its name, in the order of their ports.
    package var endpoints: [(name: String, url: String)] { listeners.map { ($0.name, url($0)) } }

    /// The port of a dialect; nil when nothing of the name is served.
    package func port(of dialect: String) -> Int? { listeners.first { $0.name == dialect }?.port }

    private func url(_ listener: Listener) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(listener.port)"
    }

    /// Opens `directory`, makes the buckets asked for, listens, and answers from then on.
    package static func start(
        directory: String, options: EmulatorOptions = EmulatorOptions()
    ) async throws(EmulatorError) -> EmulatorServer {
        guard options.allowsRemote || isLoopback(options.host) else { throw .remoteAddress(options.host) }
        for name in options.buckets where !ObjectLibrary.isBucketName(name) { throw .bucketName(name) }
        let library: ObjectLibrary
        let log: RequestLog?
        do {
            library = try ObjectLibrary(directory: directory, sync: options.sync, report: options.report)
            for name in options.buckets where !library.hasBucket(name) {
                try library.createBucket(name, region: options.region, now: options.time.now())
                if options.keepsVersions { try library.bucket(name).setVersioning(.enabled) }
            }
            log = try options.requestLog.map { (path) throws(StorageError) in try RequestLog(path: path) }
        } catch { throw .storage(error) }
        let control = ServerControl(
            plan: SharedFaultPlan(options.faults, seed: options.seed, time: options.time),
            tokens: options.credentials.tokens)
        var skewed = options
        skewed.time = ServerClock(base: options.time)
        let pool = WorkerPool(threads: options.workers, name: "pailstore")
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let connections = OpenConnections()
        var listeners: [Listener] = []
        for (offset, dialect) in dialects(library, skewed).enumerated() {
            let engine = RequestEngine(dialect: dialect, log: log, control: control, pool: pool, time: options.time)
            let port = options.port == 0 ? 0 : options.port + offset
            do {
                let channel = try await bootstrap(group, engine, connections, options).bind(
                    host: options.host, port: port
                )
                .get()
                listeners.append(Listener(name: dialect.name, channel: channel, engine: engine))
            } catch {
                try? await group.shutdownGracefully()
                throw .listening(address: "\(options.host):\(port)", reason: "\(error)")
            }
        }
        return EmulatorServer(
            listeners: listeners, group: group, control: control, library: library, connections: connections,
            host: options.host)
    }

    private static func bootstrap(
        _ group: MultiThreadedEventLoopGroup, _ engine: RequestEngine, _ connections: OpenConnections,
        _ options: EmulatorOptions
    ) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.socketOption(.so_sndbuf), value: 1 << 20)
            .childChannelOption(.socketOption(.so_rcvbuf), value: 1 << 20)
            .childChannelOption(.maxMessagesPerRead, value: 4)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 16384, maximum: 256 << 10)
            )
            .childChannelInitializer { channel in
                connections.add(channel)
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: false)
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(time: options.time) { engine.serve($0) })
                }
            }
    }

    /// Replaces the faults from now on; counters start anew.
    package func setFaults(_ specs: [FaultSpec], seed: UInt64 = 0) { control.plan.set(specs, seed: seed) }

    /// The session tokens of which requests have to carry one from now on; without any, none.
    package func setSessionTokens(_ tokens: [String]) { control.tokens.replace(by: tokens) }

    /// Takes no more connections, gives requests a moment to finish, ends the connections, and returns when the event
    /// loops are gone.
    package func stop() async {
        for listener in listeners { try? await listener.channel.close().get() }
        await drain(atMost: .seconds(1))
        await connections.closeAll()
        await drain(atMost: .seconds(5))
        try? await group.shutdownGracefully()
    }

    private func drain(atMost limit: Duration) async {
        let deadline = ContinuousClock.now + limit
        for listener in listeners { await listener.engine.drain(until: deadline) }
    }

    /// Whether `host` is reached from this machine only.
    package static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || host.hasPrefix("127.") || host.hasPrefix("::ffff:127.")
    }
}
