import Basics
import Settings
import Testing

struct CacheLocationTests {
    @Test func userDirectoryFollowsTheEnvironment() {
        #expect(CacheLocation.userDirectory(environment: ["XDG_CACHE_HOME": "/x", "HOME": "/h"]) == "/x/pailfs")
        #expect(CacheLocation.userDirectory(environment: ["XDG_CACHE_HOME": "x", "HOME": "/h"]) == "/h/.cache/pailfs")
        #expect(CacheLocation.userDirectory(environment: ["HOME": "/root"]) == "/root/.cache/pailfs")
        #expect(CacheLocation.userDirectory(environment: [:]) == nil)
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
