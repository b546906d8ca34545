// swift-tools-version: 6.2
import PackageDescription

/// `scripts/test` accepts no warning. A user's build accepts them: every new compiler adds some.
let warnings: [SwiftSetting] =
    Context.environment["PAILFS_WARNINGS_ARE_ERRORS"] == nil ? [] : [.treatAllWarnings(as: .error)]

let language: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Every Swift target is built with these; `unsafeInterop` rooms talk to C and are exempt from strict memory safety.
let strict = language + warnings

func room(_ name: String, _ dependencies: [Target.Dependency] = [], facesC: Bool = false) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: facesC ? strict : strict + [.strictMemorySafety()])
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies + ["TestSupport"], exclude: exclude, swiftSettings: strict)
}

func systemLibrary(_ name: String, pkgConfig: String, apt: String) -> Target {
    .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
}

let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let nio: [Target.Dependency] = ["NIOCore", "NIOPosix", "NIOHTTP1"].map { .product(name: $0, package: "swift-nio") }

let package = Package(
    name: "pailfs",
    products: [
        .executable(name: "pailfs", targets: ["pailfs"]),
        .executable(name: "pailstore", targets: ["pailstore"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.14.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
    targets: [
        systemLibrary("CFuse3", pkgConfig: "fuse3", apt: "libfuse3-dev"),
        systemLibrary("CCurl", pkgConfig: "libcurl", apt: "libcurl4-openssl-dev"),
        systemLibrary("CSQLite3", pkgConfig: "sqlite3", apt: "libsqlite3-dev"),
        systemLibrary("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),
        .target(name: "CLinux"),

        room("Basics", ["CLinux", system], facesC: true),
        room("Digests", ["Basics", "CLinux", "CZlib", crypto], facesC: true),
        room("SQLite", ["CSQLite3", "Basics"], facesC: true),
        room("HTTP", ["CCurl", "Basics", logging], facesC: true),
        room("ObjectStorage", ["Basics", "Digests", logging]),
        room("Providers", ["ObjectStorage", "HTTP", "Digests", "Basics", logging]),
        room("Metadata", ["SQLite", "ObjectStorage", "Digests", "Basics"]),
        room("Blocks", ["SQLite", "ObjectStorage", "Digests", "Basics", logging]),
        room("Journaling", ["SQLite", "Digests", "Basics"]),
        room("Staging", ["Journaling", "Basics"]),
        room("Commits", ["Staging", "Journaling", "ObjectStorage", "Digests", "Basics", logging]),
        room(
            "FileSystem",
            ["Metadata", "Blocks", "Journaling", "Staging", "Commits", "ObjectStorage", "Basics", logging]),
        room("FuseBridge", ["CFuse3", "CLinux", "FileSystem", "Metadata", "Basics", logging], facesC: true),
        room("Settings", ["ObjectStorage", "Basics"]),
        room("Emulator", ["Digests", "Basics"] + nio),

        .executableTarget(
            name: "pailfs",
            dependencies: [
                "FuseBridge", "FileSystem", "Commits", "Staging", "Journaling", "Blocks", "Metadata", "SQLite",
                "Providers", "HTTP", "ObjectStorage", "Settings", "Digests", "Basics", "CLinux", arguments, logging,
                system,
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "pailstore", dependencies: ["Emulator", "Basics", arguments], swiftSettings: strict),

        .target(
            name: "TestSupport", dependencies: ["ObjectStorage", "Digests", "Basics"], path: "Tests/TestSupport",
            swiftSettings: strict),
        tests("BasicsTests", ["Basics"]),
        .target(
            name: "DigestVectors", dependencies: ["Digests", "Basics"], path: "Tests/DigestVectors",
            swiftSettings: strict),
        .executableTarget(
            name: "digest-vectors", dependencies: ["DigestVectors"], path: "Tests/digest-vectors", swiftSettings: strict
        ),
        tests("DigestsTests", ["DigestVectors", "Digests", "Basics"]),
        tests("SQLiteTests", ["SQLite", "Basics"]),
        tests("HTTPTests", ["HTTP", "Basics"]),
        tests("ObjectStorageTests", ["ObjectStorage", "Basics"]),
        tests("ProvidersTests", ["Providers", "ObjectStorage", "HTTP", "Digests", "Basics"]),
        tests("MetadataTests", ["Metadata", "SQLite", "ObjectStorage", "Basics"]),
        tests("BlocksTests", ["Blocks", "SQLite", "ObjectStorage", "Digests", "Basics"]),
        tests("JournalingTests", ["Journaling", "SQLite", "Basics"]),
        tests("StagingTests", ["Staging", "Journaling", "Basics"]),
        tests("CommitsTests", ["Commits", "Staging", "Journaling", "ObjectStorage", "Digests", "Basics", logging]),
        tests(
            "FileSystemTests",
            [
                "FileSystem", "Commits", "Staging", "Journaling", "Blocks", "Metadata", "SQLite", "ObjectStorage",
                "Basics", logging,
            ]),
        tests("FuseBridgeTests", ["FuseBridge", "FileSystem", "Metadata", "Basics", "CLinux", logging]),
        tests("SettingsTests", ["Settings", "ObjectStorage", "Basics"]),
        tests(
            "EmulatorTests", ["Emulator", "Digests", "Basics"],
            exclude: [
                "boto3_conformance.py", "conformance.py", "cos_conformance.py", "cross_conformance.py",
                "cssp_conformance.py",
                "kodo_conformance.py", "oss_conformance.py", "oss_v2_conformance.py",
            ]),
        tests(
            "ConformanceTests", ["Providers", "HTTP", "Emulator", "ObjectStorage", "Digests", "Basics"]),
        tests("PailfsTests", ["pailfs", "Providers", "Settings", "Commits", "ObjectStorage", "Digests", "Basics"]),
        tests("TestSupportTests", ["ObjectStorage", "Digests", "Basics"]),
        tests("MountTests", ["Settings"], exclude: ["programs"]),
    ]
)
