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
    /// The port the S3 dialect listens on.
    package let port: Int
    package let library: ObjectLibrary
    private let engine: RequestEngine
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    private let connections: OpenConnections
    private let host: String

    private init(
        listener: any Channel, group: MultiThreadedEventLoopGroup, engine: RequestEngine, library: ObjectLibrary,
        connections: OpenConnections, host: String
    ) {
        self.connections = connections
        port = listener.localAddress?.port ?? 0
        self.listener = listener
        self.group = group
        self.engine = engine
        self.library = library
        self.host = host
    }

    /// `http://HOST:PORT` of the S3 dialect.
    package var endpoint: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)" }

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
            }
            log = try options.requestLog.map { (path) throws(StorageError) in try RequestLog(path: path) }
        } catch { throw .storage(error) }
        let engine = RequestEngine(
            dialect: S3Dialect(library: library, options: options), log: log, options: options)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let connections = OpenConnections()
        do {
            let listener = try await bootstrap(group, engine, connections, options).bind(
                host: options.host, port: options.port
            )
            .get()
            return EmulatorServer(
                listener: listener, group: group, engine: engine, library: library, connections: connections,
                host: options.host)
        } catch {
            try? await group.shutdownGracefully()
            throw .listening(address: "\(options.host):\(options.port)", reason: "\(error)")
        }
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
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(time: options.time) { engine.serve($0) })
                }
            }
    }

    /// Replaces the faults from now on; counters start anew.
    package func setFaults(_ specs: [FaultSpec], seed: UInt64 = 0) { engine.setFaults(specs, seed: seed) }

    /// Takes no more connections, gives requests a moment to finish, ends the connections, and returns when the event
    /// loops are gone.
    package func stop() async {
        try? await listener.close().get()
        await engine.drain(atMost: .seconds(1))
        await connections.closeAll()
        await engine.drain(atMost: .seconds(5))
        try? await group.shutdownGracefully()
    }

    /// Whether `host` is reached from this machine only.
    package static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || host.hasPrefix("127.") || host.hasPrefix("::ffff:127.")
    }
}
