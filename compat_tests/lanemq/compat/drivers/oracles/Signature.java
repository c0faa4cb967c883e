// Signs requests with the client's own hook. A line of input is the access key, the secret key, the
// security token (empty: none), the body and then the header fields, `name=value`, each part in
// base64 (`=` written `.`) and all separated by blanks; the line of output is the signature.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

public class Signature {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            RemotingCommand request = RemotingCommand.createRequestCommand(10, null);
            for (int i = 4; i < parts.length; i++) {
                String[] pair = parts[i].split("=", 2);
                request.addExtField(text(pair[0]), text(pair[1]));
            }
            if (!parts[3].isEmpty()) {
                request.setBody(bytes(parts[3]));
            }
            String token = parts[2].isEmpty() ? null : text(parts[2]);
            SessionCredentials credentials =
                new SessionCredentials(text(parts[0]), text(parts[1]), token);
            new AclClientRPCHook(credentials).doBeforeRequest("", request);
            out.println(request.getExtFields().get("Signature"));
        }
        out.flush();
    }

    private static byte[] bytes(String base64) {
        return Base64.getDecoder().decode(base64.replace('.', '='));
    }

    private static String text(String base64) {
        return new String(bytes(base64), StandardCharsets.UTF_8);
    }
}
