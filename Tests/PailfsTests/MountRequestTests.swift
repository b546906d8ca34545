import Foundation
import TestSupport
import Testing

@testable import pailfs

@Suite struct MountRequestTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func request(
        _ url: String = "s3://pail", options: [String] = [], environment: [String: String] = [:]
    ) throws -> MountRequest {
        try MountRequest(
            url: url, mountpoint: "mnt", options: options, directory: directory.path,
            environment: ["PAILFS_CONFIG": "", "HOME": directory.path].merging(environment) { $1 })
    }

    @Test func filesOfCredentialsAreFoundWhereTheMountWasAskedForAndThroughLinks() throws {
        try "token".write(toFile: directory.path("..data"), atomically: false, encoding: .utf8)
        try FileManager.default.createSymbolicLink(
            atPath: directory.path("token"), withDestinationPath: directory.path("..data"))
        let request = try request()
        #expect(request.credentialText("token") == "token")
        #expect(request.credentialText(directory.path("token")) == "token")
        #expect(request.credentialText("none") == nil)
    }
}
