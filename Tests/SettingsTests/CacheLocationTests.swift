import Basics
import Settings
import Testing

struct CacheLocationTests {
    @Test(
        arguments: [
            ("cache", ["XDG_CACHE_HOME": "/x", "HOME": "/h"], "/x/pailfs", "/x/pailfs"),
            ("cache", ["XDG_CACHE_HOME": "x", "HOME": "/h"], "/h/.cache/pailfs", "/var/cache/pailfs"),
            ("cache", ["HOME": "/"], "/.cache/pailfs", "/var/cache/pailfs"),
            ("cache", [:], nil, "/var/cache/pailfs"),
            ("state", ["XDG_STATE_HOME": "/x", "XDG_CACHE_HOME": "/c", "HOME": "/h"], "/x/pailfs", "/x/pailfs"),
            ("state", ["XDG_STATE_HOME": "x", "HOME": "/h"], "/h/.local/state/pailfs", "/var/lib/pailfs"),
            ("state", [:], nil, "/var/lib/pailfs"),
        ] as [(String, [String: String], String?, String)])
    func directoriesFollowTheEnvironment(
        _ kind: String, _ environment: [String: String], _ user: String?, _ root: String
    ) {
        let kind = kind == "cache" ? CacheLocation.Kind.cache : .state
        #expect(CacheLocation.directory(for: kind, environment: environment, isRoot: false) == user)
        #expect(CacheLocation.directory(for: kind, environment: environment, isRoot: true) == root)
    }

    @Test func theFormerDirectoryIsTheSameForRoot() {
        #expect(CacheLocation.former(environment: ["HOME": "/root"]) == "/root/.cache/pailfs")
        #expect(CacheLocation.former(environment: ["HOME": "/root", "XDG_CACHE_HOME": "/x"]) == "/x/pailfs")
    }

    @Test func everyBucketAndPrefixHasItsOwnName() {
        func name(_ endpoint: String?, _ bucket: String, _ prefix: ByteString) -> String {
            CacheLocation.name(scheme: "s3", endpoint: endpoint, bucket: bucket, prefix: prefix)
        }
        #expect(name("http://127.0.0.1:9000/", "pail", "a/b") == "s3,127.0.0.1:9000,pail,a%2Fb")
        #expect(name(nil, "pail", "") == "s3,,pail,")
        #expect(name("https://Host", "pail", "") == name("http://host/", "pail", ""))
        let different = [
            name(nil, "pail", ""), name(nil, "pail", "a"), name(nil, "pail,a", ""), name(nil, "a", "pail"),
            name("http://pail", "", ""), name(nil, "pail", ByteString([0xff])), name(nil, "pail", "%FF"),
        ]
        #expect(Set(different).count == different.count)
    }

    @Test func longPrefixesStayShortAndApart() {
        let long = ByteString(String(repeating: "x", count: 900))
        let one = CacheLocation.name(scheme: "s3", endpoint: nil, bucket: "pail", prefix: long)
        let two = CacheLocation.name(scheme: "s3", endpoint: nil, bucket: "pail", prefix: long + "y")
        #expect(one.utf8.count <= 200 && two.utf8.count <= 200)
        #expect(one != two)
    }
}
