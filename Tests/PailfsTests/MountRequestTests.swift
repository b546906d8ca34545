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

    private func cache(_ request: MountRequest) throws -> String {
        let path = try DirectoryPair(of: request).cache
        return try #require(path.split(separator: "/").last.map(String.init))
    }

    @Test func anEndpointFromTheEnvironmentOrAProfileNamesTheCacheToo() throws {
        #expect(try cache(request()) == "s3,,pail,")
        #expect(try cache(request(options: ["endpoint=http://a"])) == "s3,a,pail,")
        let a = ["AWS_ENDPOINT_URL_S3": "http://a"]
        #expect(try cache(request(environment: a)) == "s3,a,pail,")
        #expect(try cache(request(options: ["endpoint=http://b"], environment: a)) == "s3,b,pail,")
        #expect(try cache(request(environment: ["AWS_ENDPOINT_URL": "http://c"])) == "s3,c,pail,")
        try "[profile d]\nendpoint_url = http://d\n".write(
            toFile: directory.path("aws"), atomically: false, encoding: .utf8)
        #expect(try cache(request(options: ["profile=d"], environment: ["AWS_CONFIG_FILE": "aws"])) == "s3,d,pail,")
        #expect(try cache(request("oss://pail", environment: ["OSS_ENDPOINT": "http://e"])) == "oss,e,pail,")
        #expect(
            try cache(request("kodo://pail", environment: ["QINIU_BUCKET_URL": "http://f,http://g"])) == "kodo,f,pail,")
        #expect(try cache(request("cssp://pail", environment: ["CSSP_URL": "http://h/pail"])) == "cssp,h%2Fpail,pail,")
        #expect(try cache(request("cos://pail-12", environment: ["COS_APPID": "12"])) == "cos,,pail-12,")
        #expect(try cache(request("cos://pail", environment: ["COS_APPID": "12"])) == "cos,%4012,pail,")
    }

    @Test func aSwiftAccountNamesTheCacheOfItsContainers() throws {
        let ours = ["PAILFS_ACCESS_KEY_ID": "account:user", "PAILFS_SECRET_ACCESS_KEY": "s"]
        #expect(
            try cache(request("swift://pail", options: ["endpoint=http://a"], environment: ours)) == "swift,a,pail,")
        #expect(
            try cache(request("swift://pail", options: ["auth-url=http://a"], environment: ours))
                == "swift,a%40account,pail,")
        var cloud = [
            "OS_AUTH_URL": "http://k:5000/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "One",
        ]
        let one = try cache(request("swift://pail", environment: cloud))
        #expect(one == "swift,k:5000%2Fv3%40One,pail,")
        cloud["OS_PROJECT_NAME"] = "Two"
        #expect(try cache(request("swift://pail", environment: cloud)) != one)
        cloud["OS_REGION_NAME"] = "r"
        #expect(try cache(request("swift://pail", environment: cloud)) == "swift,k:5000%2Fv3%40Two%40r,pail,")
    }

    @Test func whoTakesAMountOverFindsTheSameStoreWhateverTheFilesSay() throws {
        try "[default]\nendpoint_url = http://a\n".write(
            toFile: directory.path("aws"), atomically: false, encoding: .utf8)
        let mounted = try request(environment: ["AWS_CONFIG_FILE": "aws"]).keepingFound()
        try "[default]\nendpoint_url = http://b\n".write(
            toFile: directory.path("aws"), atomically: false, encoding: .utf8)
        let later = try request(environment: MountRequest.takingOver(mounted.environment))
        #expect(try cache(later) == "s3,a,pail,")
        #expect(later.keptStore?.endpoint == "http://a")
        let older = try request(environment: MountRequest.takingOver(["AWS_ENDPOINT_URL": "http://c"]))
        #expect(try cache(older) == "s3,,pail,", "an earlier version looked at the option alone")
    }
}
