import Digests
import Emulator
import Foundation
import ObjectStorage
import TestSupport
import Testing

@Suite(
    .against {
        let store = MemoryStore()
        store.checksum = { .crc64nvme(CRC64NVME.of($0)) }
        try await $0(Fixture(store: store))
    })
struct MemoryConformanceTests {
    @Test(arguments: Promise.all) func theStoreInMemoryKeepsItsPromise(_ promise: Promise) async throws {
        try await promise.prove()
    }
}

/// Each dialect's store against the emulator's side of it.
@Suite struct EmulatorConformanceTests {
    @Suite(.against { try await withEmulator(.cssp, $0) })
    struct CSSP {
        @Test(arguments: Promise.all + Promise.largeObjects) func theStoreKeepsItsPromise(_ promise: Promise)
            async throws
        {
            try await promise.prove()
        }
    }

    @Suite(.against { try await withEmulator(.s3, $0) })
    struct S3 {
        @Test(arguments: Promise.all) func theStoreKeepsItsPromise(_ promise: Promise) async throws {
            try await promise.prove()
        }
    }

    @Suite(.against { try await withEmulator(.oss, $0) })
    struct OSS {
        @Test(arguments: Promise.all) func theStoreKeepsItsPromise(_ promise: Promise) async throws {
            try await promise.prove()
        }
    }

    @Suite(.against { try await withEmulator(.cos, $0) })
    struct COS {
        @Test(arguments: Promise.all) func theStoreKeepsItsPromise(_ promise: Promise) async throws {
            try await promise.prove()
        }
    }

    @Suite(.against { try await withEmulator(.kodo, $0) })
    struct Kodo {
        @Test(arguments: Promise.all) func theStoreKeepsItsPromise(_ promise: Promise) async throws {
            try await promise.prove()
        }
    }
}

/// A server that is not ours, so that client and emulator are not wrong in the same way.
@Suite(
    .enabled(if: Seaweed.program != nil, "PAILFS_TEST_WEED names no SeaweedFS program"), .against(Seaweed.run),
    .timeLimit(.minutes(5)))
struct SeaweedConformanceTests {
    @Test(arguments: Promise.all) func seaweedKeepsItsPromise(_ promise: Promise) async throws {
        try await promise.prove()
    }
}

@Suite(
    .enabled(if: OpenStackSwift.isInstalled, "OpenStack Swift is not installed: scripts/setup test"),
    .against(RealSwift.run), .timeLimit(.minutes(5)))
struct RealSwiftConformanceTests {
    @Test(arguments: Promise.all + Promise.largeObjects) func openStackSwiftKeepsItsPromise(_ promise: Promise)
        async throws
    {
        try await promise.prove()
    }

    /// So that the emulator does nothing that the real one does otherwise.
    @Test(.enabled(if: RealSwift.python != nil, "PAILFS_TEST_PYTHON names no Python"))
    func openStackSwiftDoesWhatTheEmulatorDoes() throws {
        let server = try #require(Fixture.current?.server)
        #expect(try RealSwift.runEmulatorsList(against: server).contains(" passed, 0 failed"))
    }
}

@Suite(
    .enabled(if: RealCeph.isInstalled, "Ceph is not installed: scripts/setup test"), .against(RealCeph.swift),
    .timeLimit(.minutes(5)))
struct CephSwiftConformanceTests {
    @Test(arguments: Promise.all + Promise.largeObjects) func cephsSwiftAPIKeepsItsPromise(_ promise: Promise)
        async throws
    {
        try await promise.prove()
    }
}

/// Runs `body` with an emulator in this process.
@Sendable func withEmulator(_ dialect: Dialect, _ body: Against.Body) async throws {
    try await withEmulator(dialect) { (_: EmulatorServer, server: Server) in
        try await body(Fixture(store: try server.store(), server: server))
    }
}

/// The same with its controls.
func withEmulator(
    _ dialect: Dialect = .s3, change: (inout EmulatorOptions) -> Void = { _ in },
    _ body: (EmulatorServer, Server) async throws -> Void
) async throws {
    let directory = try TemporaryDirectory()
    var options = EmulatorOptions()
    options.buckets = ["conformance"]
    options.credentials = EmulatorCredentials(accessKey: "tester", secretKey: "tester-secret")
    change(&options)
    let emulator = try await EmulatorServer.start(directory: directory.path("store"), options: options)
    do {
        try await body(emulator, Server(port: try #require(emulator.port(of: dialect.rawValue)), dialect: dialect))
    } catch {
        await emulator.stop()
        throw error
    }
    await emulator.stop()
}
